//! The runtime's promises under attack, each in a process of its own where it takes one. A test that needs what the
//! machine does not give says "skipped" with the reason, never "ok".

mod clock;
mod damage;
mod exit;
mod fork;
mod harness;
mod kill;
mod memory;
mod modes;
mod signals;
mod soak;
mod space;
mod stream;
mod threads;
mod work;

#[global_allocator]
static ALLOCATOR: memory::Watch = memory::Watch;

fn main() -> std::process::ExitCode {
    harness::main(
        &[
            (
                "clock::a_vendor_clock_that_goes_its_own_way",
                clock::a_vendor_clock_that_goes_its_own_way,
            ),
            ("clock::without_a_tsc", clock::without_a_tsc),
            (
                "damage::every_byte_changed_one_at_a_time",
                damage::every_byte_changed_one_at_a_time,
            ),
            ("exit::every_way_to_end", exit::every_way_to_end),
            ("fork::children_are_inert", fork::children_are_inert),
            (
                "kill::killed_at_random_moments",
                kill::killed_at_random_moments,
            ),
            (
                "memory::no_event_allocates_or_calls_the_kernel",
                memory::no_event_allocates_or_calls_the_kernel,
            ),
            (
                "modes::flight_keeps_the_newest",
                modes::flight_keeps_the_newest,
            ),
            (
                "modes::released_sessions_give_their_memory_back",
                modes::released_sessions_give_their_memory_back,
            ),
            (
                "signals::a_jump_out_of_a_handler",
                signals::a_jump_out_of_a_handler,
            ),
            (
                "signals::a_jump_out_of_a_segment_change",
                signals::a_jump_out_of_a_segment_change,
            ),
            ("signals::a_storm", signals::a_storm),
            (
                "signals::at_every_instruction",
                signals::at_every_instruction,
            ),
            ("soak::all_modes_in_turn", soak::all_modes_in_turn),
            (
                "space::a_full_file_system_is_a_count",
                space::a_full_file_system_is_a_count,
            ),
            (
                "space::a_memfd_can_be_read_and_not_cut",
                space::a_memfd_can_be_read_and_not_cut,
            ),
            (
                "space::huge_pages_are_best_effort",
                space::huge_pages_are_best_effort,
            ),
            (
                "space::locked_memory_is_best_effort",
                space::locked_memory_is_best_effort,
            ),
            (
                "space::limits_and_permissions_are_a_status",
                space::limits_and_permissions_are_a_status,
            ),
            ("space::the_file_may_go_away", space::the_file_may_go_away),
            (
                "stream::a_file_that_may_not_grow_is_a_count",
                stream::a_file_that_may_not_grow_is_a_count,
            ),
            (
                "stream::everything_is_in_the_file_or_counted",
                stream::everything_is_in_the_file_or_counted,
            ),
            (
                "stream::killed_at_random_moments",
                stream::killed_at_random_moments,
            ),
            (
                "threads::cancelled_and_vanished",
                threads::cancelled_and_vanished,
            ),
            ("threads::destructors_append", threads::destructors_append),
            (
                "threads::ten_thousand_in_turn",
                threads::ten_thousand_in_turn,
            ),
            (
                "threads::three_hundred_at_once",
                threads::three_hundred_at_once,
            ),
        ],
        &[
            ("cancelled", threads::cancelled_body),
            ("clock", clock::body),
            ("destructors", threads::destructors_body),
            ("exit", exit::body),
            ("flight", modes::flight_body),
            ("fork", fork::body),
            ("full", space::full_body),
            ("gone", space::gone_body),
            ("jump", signals::jump_body),
            ("jumps between segments", signals::jumps_between_body),
            ("huge", space::huge_body),
            ("kill", kill::body),
            ("lock", space::lock_body),
            ("memfd", space::memfd_body),
            ("many threads", threads::many_body),
            ("refused", space::refused_body),
            ("released", modes::released_body),
            ("short threads", threads::short_body),
            ("soak, flight", soak::flight_body),
            ("soak, stream", soak::stream_body),
            ("soak, window", soak::window_body),
            ("stepped", signals::stepped_body),
            ("storm", signals::storm_body),
            ("stream", stream::body),
            ("stream, killed", stream::killed_body),
            ("stream, limited", stream::limited_body),
            ("watched", memory::watched_body),
        ],
    )
}
