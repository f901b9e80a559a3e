/* Preloaded: aborts, with the function's name, when a thread allocates, locks or calls the loader while it is inside a
 * callback of the tool. The driver says when that is, with shim_inside. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static __thread int inside __attribute__((tls_model("initial-exec")));

void shim_inside(int now) { inside = now; }

static void check(const char *what) {
    if (!inside) return;
    inside = 0;
    static const char text[] = "shim: in a callback: ";
    if (write(2, text, sizeof text - 1) < 0 || write(2, what, strlen(what)) < 0 || write(2, "\n", 1) < 0) _exit(98);
    _exit(99);
}

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

void *malloc(size_t bytes) { return check("malloc"), __libc_malloc(bytes); }
void *calloc(size_t count, size_t bytes) { return check("calloc"), __libc_calloc(count, bytes); }
void *realloc(void *block, size_t bytes) { return check("realloc"), __libc_realloc(block, bytes); }
void *memalign(size_t align, size_t bytes) { return check("memalign"), __libc_memalign(align, bytes); }
void *aligned_alloc(size_t align, size_t bytes) { return check("aligned_alloc"), __libc_memalign(align, bytes); }
int posix_memalign(void **block, size_t align, size_t bytes) {
    check("posix_memalign");
    *block = __libc_memalign(align, bytes);
    return *block ? 0 : 12;
}
void free(void *block) {
    check("free");
    __libc_free(block);
}

static void *next(const char *name) {
    void *found = dlvsym(RTLD_NEXT, name, "GLIBC_2.34");
    return found ? found : dlvsym(RTLD_NEXT, name, "GLIBC_2.2.5");
}

/* The real ones are looked up before main: a callback must not be the first to ask. */
static int (*real_lock)(pthread_mutex_t *), (*real_rdlock)(pthread_rwlock_t *), (*real_wrlock)(pthread_rwlock_t *);
static void *(*real_dlsym)(void *, const char *), *(*real_dlopen)(const char *, int);
static int (*real_iterate)(int (*)(struct dl_phdr_info *, size_t, void *), void *);

__attribute__((constructor)) static void find(void) {
    real_lock = (int (*)(pthread_mutex_t *))next("pthread_mutex_lock");
    real_rdlock = (int (*)(pthread_rwlock_t *))next("pthread_rwlock_rdlock");
    real_wrlock = (int (*)(pthread_rwlock_t *))next("pthread_rwlock_wrlock");
    real_dlsym = (void *(*)(void *, const char *))next("dlsym");
    real_dlopen = (void *(*)(const char *, int))next("dlopen");
    real_iterate = (int (*)(int (*)(struct dl_phdr_info *, size_t, void *), void *))next("dl_iterate_phdr");
}

int pthread_mutex_lock(pthread_mutex_t *mutex) {
    check("pthread_mutex_lock");
    if (!real_lock) find();
    return real_lock(mutex);
}
int pthread_rwlock_rdlock(pthread_rwlock_t *lock) {
    check("pthread_rwlock_rdlock");
    if (!real_rdlock) find();
    return real_rdlock(lock);
}
int pthread_rwlock_wrlock(pthread_rwlock_t *lock) {
    check("pthread_rwlock_wrlock");
    if (!real_wrlock) find();
    return real_wrlock(lock);
}
void *dlsym(void *restrict handle, const char *restrict name) {
    check("dlsym");
    if (!real_dlsym) find();
    return real_dlsym(handle, name);
}
void *dlopen(const char *name, int mode) {
    check("dlopen");
    if (!real_dlopen) find();
    return real_dlopen(name, mode);
}
int dl_iterate_phdr(int (*callback)(struct dl_phdr_info *, size_t, void *), void *data) {
    check("dl_iterate_phdr");
    if (!real_iterate) find();
    return real_iterate(callback, data);
}
