// Goal: appending, reading, subscribing and closing on many threads at once, under ThreadSanitizer. Prints "ok".
// Method: 4 threads append; one reader subscribes and sees each record once, with its name; one opens and closes cursors over
// the live process; two fight over handles; sessions open and close meanwhile.
#include <array>
#include <atomic>
#include <cstdio>
#include <set>
#include <strandline.hpp>
#include <thread>
#include <vector>

namespace {

constexpr uint64_t appenders = 4, each = 5000;
std::atomic<int> failures{0};

void expect(bool true_, const char *what) {
    if (!true_ && failures++ < 20) std::printf("%s\n", what);
}

void append(uint64_t thread) {
    for (uint64_t i = 0; i < each; i++) {
        const uint64_t id = thread << 32 | (i + 1);
        strandline::external_id external(0, id);
        auto call = strandline::make<strandline_api>();
        call.correlation_id = id;
        call.domain = STRANDLINE_DOMAIN_USER;
        call.operation = 1;
        strandline::api_call inside(call);
        auto dispatch = strandline::make<strandline_dispatch>();
        dispatch.correlation_id = dispatch.dispatch_id = id;
        dispatch.kernel_id = 1;
        uint64_t token = 0;
        expect(strandline_dispatch_issue(&dispatch, &token) == STRANDLINE_OK, "issue");
        dispatch.start_ns = strandline_now_ns();
        dispatch.end_ns = dispatch.start_ns + 1;
        expect(strandline_dispatch_done(token, &dispatch) == STRANDLINE_OK, "done");
    }
}

}  // namespace

int main() try {
    auto settings = strandline::make<strandline_settings>();
    settings.flags = STRANDLINE_SETTINGS_SIMULATED;
    settings.budget_bytes = 256 << 20;
    strandline::check(strandline_init(&settings));
    strandline::check(strandline_declare_operation(STRANDLINE_DOMAIN_USER, 1, "launch"));
    auto kernel = strandline::make<strandline_kernel>();
    kernel.kernel_id = 1;
    kernel.name = "kernel";
    strandline::check(strandline_declare_kernel(&kernel));

    strandline::session session;
    std::atomic<bool> over{false};
    strandline::subscriber subscriber(STRANDLINE_KIND_BIT(STRANDLINE_KIND_DISPATCH) | STRANDLINE_KINDS_FACTS);
    std::set<uint64_t> seen;
    std::thread reader([&] {
        for (bool last = false; !last;) {
            last = over;
            for (const auto &record : subscriber) {
                if (record.kind != STRANDLINE_KIND_DISPATCH) continue;
                expect(seen.insert(record.dispatch_id).second, "a record came twice");
                expect(strandline::name(record) == "kernel", "a record without its kernel's name");
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    });
    std::thread looker([&] {
        while (!over) {
            const auto trace = strandline::trace::live();
            uint64_t last_ns = 0;
            for (const auto &record : trace.records(STRANDLINE_KIND_BIT(STRANDLINE_KIND_API))) {
                expect(record.start_ns >= last_ns, "out of order");
                expect(strandline::name(record) == "launch" && record.external_id == record.correlation_id, "a call's name or id");
                last_ns = record.start_ns;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
    });
    // The same handle used and closed by two threads: each answer is a status.
    std::atomic<strandline_trace *> shared{nullptr};
    std::array<std::thread, 2> fighters;
    for (auto &fighter : fighters)
        fighter = std::thread([&] {
            while (!over) {
                strandline_trace *mine = nullptr;
                if (strandline_trace_live(&mine) != STRANDLINE_OK) continue;
                strandline_trace *theirs = shared.exchange(mine);
                auto info = strandline::make<strandline_trace_info>();
                const int32_t looked = strandline_trace_get_info(mine, &info);
                expect(looked == STRANDLINE_OK || looked == STRANDLINE_BAD_HANDLE, "a handle under fire");
                if (theirs) expect(strandline_trace_close(theirs) == STRANDLINE_OK, "one close");
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
        });
    std::vector<std::thread> threads;
    for (uint64_t thread = 1; thread <= appenders; thread++) threads.emplace_back(append, thread);
    for (auto &thread : threads) thread.join();
    const auto end = session.stop();
    over = true;
    reader.join();
    looker.join();
    for (auto &fighter : fighters) fighter.join();
    expect(end.verdict == STRANDLINE_VERDICT_COMPLETE && end.recorded == appenders * each, "complete");
    expect(seen.size() == appenders * each, "the subscriber saw all");
    expect(subscriber.lost().segments == 0, "nothing lost");
    strandline::check(strandline_shutdown());
    std::printf(failures ? "%d failures\n" : "ok\n", failures.load());
    return failures != 0;
} catch (const strandline::error &error) {
    std::printf("%d: %s\n", error.status(), error.what());
    return 1;
}
