// Bring your own source, in C++: a reader that comes late, a range, external ids, and the trace afterwards.
//
//   c++ -std=c++17 live.cpp $(pkg-config --cflags --libs strandline) -lpthread -o live && ./live
#include <atomic>
#include <iostream>
#include <map>
#include <strandline.hpp>
#include <thread>

namespace {

// Issues and completes one dispatch; a real source completes it on another thread, later.
void launch(uint64_t id) {
    strandline::external_id request(0, 1000 + id);
    auto call = strandline::make<strandline_api>();
    call.correlation_id = id;
    call.domain = STRANDLINE_DOMAIN_USER;
    call.operation = 1;
    strandline::api_call inside(call);
    auto dispatch = strandline::make<strandline_dispatch>();
    dispatch.correlation_id = dispatch.dispatch_id = id;
    dispatch.kernel_id = 1 + id % 2;
    uint64_t token = 0;
    strandline::check(strandline_dispatch_issue(&dispatch, &token));
    dispatch.start_ns = strandline_now_ns();
    dispatch.end_ns = dispatch.start_ns + 50 * dispatch.kernel_id;
    strandline::check(strandline_dispatch_done(token, &dispatch));
}

void declare() {
    strandline::check(strandline_declare_operation(STRANDLINE_DOMAIN_USER, 1, "launch"));
    for (const char *name : {"_Z4axpyPf.kd", "_Z4gemmPf.kd"}) {
        static uint64_t id = 0;
        auto kernel = strandline::make<strandline_kernel>();
        kernel.kernel_id = ++id;
        kernel.name = name;
        strandline::check(strandline_declare_kernel(&kernel));
    }
}

}  // namespace

int main() try {
    auto settings = strandline::make<strandline_settings>();
    settings.source_name = "an example without a GPU (simulation)";
    settings.flags = STRANDLINE_SETTINGS_SIMULATED;
    strandline::check(strandline_init(&settings));
    declare();

    strandline::session session;
    for (uint64_t id = 1; id <= 50; id++) launch(id);

    // Comes late: the facts are replayed, so that it knows every kernel's name; then it sees what happens from now on.
    std::map<std::string, uint64_t> seen;
    std::atomic<bool> over{false};
    strandline::subscriber subscriber;
    std::thread reader([&] {
        for (bool last = false; !last;) {
            last = over;
            for (const auto &record : subscriber)
                if (record.kind == STRANDLINE_KIND_DISPATCH) seen[std::string(strandline::name(record))]++;
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    });
    {
        strandline::range range("second half");
        for (uint64_t id = 51; id <= 100; id++) launch(id);
    }
    const auto end = session.stop();
    over = true;
    reader.join();
    std::cout << "complete: " << (end.verdict == STRANDLINE_VERDICT_COMPLETE) << ", " << end.recorded << " of " << end.issued
              << " dispatches (a simulation)\n";
    for (const auto &[name, count] : seen) std::cout << "live: " << count << " x " << name << "\n";

    const auto trace = strandline::trace::live();
    uint64_t dispatches = 0, externals = 0, last_ns = 0;
    bool ordered = true;
    for (const auto &record : trace.records()) {
        ordered = ordered && record.start_ns >= last_ns;
        last_ns = record.start_ns;
        dispatches += record.kind == STRANDLINE_KIND_DISPATCH;
        externals += record.kind == STRANDLINE_KIND_DISPATCH && record.external_id == 1000 + record.correlation_id;
        if (record.kind == STRANDLINE_KIND_RANGE) std::cout << "range: " << strandline::name(record) << "\n";
    }
    std::cout << "trace: " << dispatches << " dispatches, " << externals << " with their external id, "
              << (ordered ? "in order" : "OUT OF ORDER") << "\n";
    strandline::check(strandline_shutdown());
    return 0;
} catch (const strandline::error &error) {
    std::cerr << "error " << error.status() << ": " << error.what() << "\n";
    return 1;
}
