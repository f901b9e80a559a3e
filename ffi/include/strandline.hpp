// Strandline for C++17: owners and ranges over strandline.h, header only.
//
// Everything that can fail throws strandline::error, which carries the status; what runs in destructors, and everything that
// appends, does not throw. Handles are moved, not copied. See strandline.h for units, threads and ownership.
#ifndef STRANDLINE_HPP
#define STRANDLINE_HPP

#include "strandline.h"

#include <chrono>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace strandline {

/// A status that is not STRANDLINE_OK.
class error : public std::runtime_error {
public:
    explicit error(int32_t status) : std::runtime_error(strandline_status_string(status)), status_(status) {}
    int32_t status() const noexcept { return status_; }

private:
    int32_t status_;
};

/// Throws for every status but STRANDLINE_OK.
inline void check(int32_t status) {
    if (status != STRANDLINE_OK) throw error(status);
}

/// A struct of the C header, emptied, with its size set.
template <class T>
T make() {
    T value{};
    value.size = sizeof(T);
    return value;
}

/// True while a session is open: two loads.
inline bool has_session() noexcept { return STRANDLINE_HAS_SESSION(); }

namespace detail {
/// The owner of a handle.
template <class T, int32_t (*Close)(T *)>
class handle {
public:
    handle() = default;
    explicit handle(T *raw) noexcept : raw_(raw) {}
    handle(handle &&other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
    handle &operator=(handle &&other) noexcept {
        if (this != &other) {
            close();
            raw_ = std::exchange(other.raw_, nullptr);
        }
        return *this;
    }
    handle(const handle &) = delete;
    handle &operator=(const handle &) = delete;
    ~handle() { close(); }

    T *get() const noexcept { return raw_; }
    explicit operator bool() const noexcept { return raw_ != nullptr; }
    void close() noexcept {
        if (raw_) Close(std::exchange(raw_, nullptr));
    }

private:
    T *raw_ = nullptr;
};
}  // namespace detail

/// The name of a record; empty when it has none.
inline std::string_view name(const strandline_record &record) {
    return record.name ? std::string_view(record.name, record.name_bytes) : std::string_view();
}

/// A session from construction to stop(). Destroyed while open it is closed without waiting; its books are closed in the
/// background.
class session {
public:
    session() { check(strandline_session_start(&number_)); }
    session(session &&other) noexcept : number_(std::exchange(other.number_, 0)) {}
    session &operator=(session &&other) noexcept {
        std::swap(number_, other.number_);
        return *this;
    }
    session(const session &) = delete;
    session &operator=(const session &) = delete;
    ~session() {
        if (number_) strandline_session_close(number_);
    }

    uint64_t number() const noexcept { return number_; }

    /// Stops and waits for proof; an incomplete session is no error.
    strandline_stop_result stop(std::chrono::nanoseconds timeout = std::chrono::seconds(5)) {
        auto result = make<strandline_stop_result>();
        const uint64_t wait = timeout.count() > 0 ? static_cast<uint64_t>(timeout.count()) : 0;
        check(strandline_session_stop(std::exchange(number_, 0), wait, &result));
        return result;
    }

private:
    uint64_t number_ = 0;
};

/// Iterates over what `next` gives until there is nothing (more, or now).
template <class Source>
class record_iterator {
public:
    using iterator_category = std::input_iterator_tag;
    using value_type = strandline_record;
    using difference_type = std::ptrdiff_t;
    using pointer = const strandline_record *;
    using reference = const strandline_record &;

    record_iterator() = default;
    explicit record_iterator(Source &source) : source_(&source) { ++*this; }
    reference operator*() const noexcept { return record_; }
    pointer operator->() const noexcept { return &record_; }
    record_iterator &operator++() {
        if (!source_->next(record_)) source_ = nullptr;
        return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(const record_iterator &other) const noexcept { return source_ == other.source_; }
    bool operator!=(const record_iterator &other) const noexcept { return source_ != other.source_; }

private:
    Source *source_ = nullptr;
    strandline_record record_ = make<strandline_record>();
};

/// Records of a trace in the order of their start. Range-for once, or after rewind().
class cursor {
public:
    cursor(strandline_trace *trace, uint64_t kinds, uint64_t session) {
        strandline_cursor *raw = nullptr;
        check(strandline_cursor_open(trace, kinds, session, &raw));
        handle_ = decltype(handle_)(raw);
    }
    /// False at the end.
    bool next(strandline_record &record) {
        const int32_t status = strandline_cursor_next(handle_.get(), &record);
        if (status == STRANDLINE_NOTHING) return false;
        check(status);
        return true;
    }
    uint64_t count() const {
        uint64_t count = 0;
        check(strandline_cursor_count(handle_.get(), &count));
        return count;
    }
    void rewind() { check(strandline_cursor_rewind(handle_.get())); }
    record_iterator<cursor> begin() { return record_iterator<cursor>(*this); }
    record_iterator<cursor> end() { return {}; }

private:
    detail::handle<strandline_cursor, strandline_cursor_close> handle_;
};

/// A region file, or what this process has recorded.
class trace {
public:
    static trace open(const std::string &path) {
        strandline_trace *raw = nullptr;
        check(strandline_trace_open(path.c_str(), &raw));
        return trace(raw);
    }
    static trace live() {
        strandline_trace *raw = nullptr;
        check(strandline_trace_live(&raw));
        return trace(raw);
    }

    strandline_trace *get() const noexcept { return handle_.get(); }
    strandline_trace_info info() const {
        auto info = make<strandline_trace_info>();
        check(strandline_trace_get_info(get(), &info));
        return info;
    }
    /// `kinds`: STRANDLINE_KIND_BIT(...) | ..., 0 = all; session 0 = all.
    cursor records(uint64_t kinds = 0, uint64_t session = 0) const { return cursor(get(), kinds, session); }
    strandline_agent agent(uint64_t index) const { return at(strandline_trace_agent, index); }
    strandline_queue queue(uint64_t index) const { return at(strandline_trace_queue, index); }
    strandline_stream stream(uint64_t index) const { return at(strandline_trace_stream, index); }
    strandline_kernel kernel(uint64_t index) const { return at(strandline_trace_kernel, index); }
    strandline_session session(uint64_t index) const { return at(strandline_trace_session, index); }
    strandline_metadata_pair metadata(uint64_t index) const { return at(strandline_trace_metadata, index); }
    void export_to(const std::string &path, uint64_t session = 0) const {
        check(strandline_trace_export(get(), session, path.c_str()));
    }

private:
    explicit trace(strandline_trace *raw) noexcept : handle_(raw) {}
    template <class T>
    T at(int32_t (*read)(strandline_trace *, uint64_t, T *), uint64_t index) const {
        auto value = make<T>();
        check(read(get(), index, &value));
        return value;
    }

    detail::handle<strandline_trace, strandline_trace_close> handle_;
};

/// Facts first, then records as they are published. Range-for ends when there is nothing for now; begin again later.
class subscriber {
public:
    explicit subscriber(uint64_t kinds = 0, uint32_t flags = 0) {
        strandline_subscriber *raw = nullptr;
        check(strandline_subscribe(kinds, flags, &raw));
        handle_ = decltype(handle_)(raw);
    }
    /// False when there is nothing for now.
    bool next(strandline_record &record) {
        const int32_t status = strandline_subscriber_next(handle_.get(), &record);
        if (status == STRANDLINE_NOTHING) return false;
        check(status);
        return true;
    }
    strandline_lost lost() const {
        auto lost = make<strandline_lost>();
        check(strandline_subscriber_lost(handle_.get(), &lost));
        return lost;
    }
    record_iterator<subscriber> begin() { return record_iterator<subscriber>(*this); }
    record_iterator<subscriber> end() { return {}; }

private:
    detail::handle<strandline_subscriber, strandline_subscriber_close> handle_;
};

/// A range from construction to destruction, on one thread.
class range {
public:
    explicit range(const char *name) noexcept { strandline_range_push(name); }
    range(const range &) = delete;
    range &operator=(const range &) = delete;
    ~range() { strandline_range_pop(); }
};

/// An external id from construction to destruction, on one thread.
class external_id {
public:
    external_id(uint32_t domain, uint64_t id) noexcept
        : domain_(domain), pushed_(strandline_external_push(domain, id) == STRANDLINE_OK) {}
    external_id(const external_id &) = delete;
    external_id &operator=(const external_id &) = delete;
    ~external_id() {
        if (pushed_) strandline_external_pop(domain_, nullptr);
    }

private:
    uint32_t domain_;
    bool pushed_;
};

/// A call of the program into its source, from construction to destruction, on one thread.
class api_call {
public:
    explicit api_call(const strandline_api &call) noexcept : call(call) { strandline_api_enter(&this->call, &token_); }
    api_call(const api_call &) = delete;
    api_call &operator=(const api_call &) = delete;
    ~api_call() { strandline_api_exit(token_, &call); }

    /// Its `return_value` and `arguments` are read at the end.
    strandline_api call;

private:
    uint64_t token_ = 0;
};

}  // namespace strandline

#endif  // STRANDLINE_HPP
