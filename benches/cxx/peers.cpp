// C++ peers of the append bench. Every row is 8 words; see src/cxx.rs.
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include <concurrentqueue/concurrentqueue.h>
#include <readerwriterqueue/readerwriterqueue.h>

namespace {
constexpr std::size_t places = 1 << 13;

struct Row {
    std::uint64_t words[8];
};

struct Peer;

// A pair of cache lines of its own.
struct alignas(128) Producer {
    Peer *peer;
    std::unique_ptr<moodycamel::ReaderWriterQueue<Row>> ring;
    std::unique_ptr<moodycamel::ProducerToken> token;
};

struct Peer {
    int kind;
    moodycamel::ConcurrentQueue<Row> shared;
    std::vector<Producer> producers;
    std::mutex mutex;
    std::vector<Row *> rows;
    std::vector<Row *> taken;

    Peer(int kind, int count)
        : kind(kind), shared(kind == 1 ? places * static_cast<std::size_t>(count) : 1),
          producers(static_cast<std::size_t>(count)) {
        for (auto &producer : producers) {
            producer.peer = this;
            if (kind == 0) producer.ring = std::make_unique<moodycamel::ReaderWriterQueue<Row>>(places);
            if (kind == 1) producer.token = std::make_unique<moodycamel::ProducerToken>(shared);
        }
    }
    ~Peer() {
        for (auto *row : rows) delete row;
        for (auto *row : taken) delete row;
    }
};
} // namespace

extern "C" {
void *peer_new(int kind, int producers) { return new Peer(kind, producers); }
void peer_delete(void *peer) { delete static_cast<Peer *>(peer); }
void *peer_producer(void *peer, int index) {
    return &static_cast<Peer *>(peer)->producers[static_cast<std::size_t>(index)];
}
bool peer_push_rw(void *producer, const std::uint64_t *row) {
    return static_cast<Producer *>(producer)->ring->try_enqueue(*reinterpret_cast<const Row *>(row));
}
bool peer_push_cq(void *producer, const std::uint64_t *row) {
    auto *own = static_cast<Producer *>(producer);
    return own->peer->shared.enqueue(*own->token, *reinterpret_cast<const Row *>(row));
}
bool peer_push_store(void *producer, const std::uint64_t *row) {
    auto *peer = static_cast<Producer *>(producer)->peer;
    auto *copy = new Row(*reinterpret_cast<const Row *>(row));
    std::lock_guard<std::mutex> lock(peer->mutex);
    peer->rows.push_back(copy);
    return true;
}
std::size_t peer_take(void *opaque, std::uint64_t *out, std::size_t most) {
    auto *peer = static_cast<Peer *>(opaque);
    auto *rows = reinterpret_cast<Row *>(out);
    std::size_t count = 0;
    if (peer->kind == 0) {
        for (auto &producer : peer->producers) {
            while (count < most && producer.ring->try_dequeue(rows[count])) ++count;
        }
    } else if (peer->kind == 1) {
        count = peer->shared.try_dequeue_bulk(rows, most);
    } else {
        if (peer->taken.empty()) {
            std::lock_guard<std::mutex> lock(peer->mutex);
            peer->taken.swap(peer->rows);
        }
        while (count < most && !peer->taken.empty()) {
            // Order does not matter to the check: from the back, so that taking is cheap.
            std::memcpy(&rows[count++], peer->taken.back(), sizeof(Row));
            delete peer->taken.back();
            peer->taken.pop_back();
        }
    }
    return count;
}
}
