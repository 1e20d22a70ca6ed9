//! Each model once. `LOOM_MAX_PREEMPTIONS` bounds how often threads are interrupted between two of their steps; without
//! it, a run of all interleavings takes hours.

use onrush_models::{blocking::model as waiters, gate_model as gate, keyspace::model as lock, workers::model as inbox};

#[test]
fn lock_one_of_three_threads_at_a_time() {
    let mut builder = loom::model::Builder::new();
    // Two threads that wait for a third look at the lock in very many orders.
    builder.preemption_bound = Some(1);
    builder.check(|| lock::one_thread_at_a_time(3));
}

/// Goes through the interleavings of a model.
fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 20_000;
    builder.check(model);
}

macro_rules! models {
    ($($name:ident: $model:expr;)*) => {
        $(
            #[test]
            fn $name() {
                explore(|| $model);
            }
        )*
    };
}

models! {
    lock_one_thread_at_a_time: lock::one_thread_at_a_time(2);
    lock_only_a_long_holder_is_not_waited_for: lock::only_a_long_holder_is_not_waited_for();
    lock_a_try_never_waits: lock::a_try_never_waits();
    gate_whoever_has_all_of_it_is_alone: gate::whoever_has_all_of_it_is_alone();
    gate_turns_come_in_their_order: gate::turns_come_in_their_order();
    gate_a_turn_given_up_is_passed_over: gate::a_turn_given_up_is_passed_over();
    gate_a_later_turn_given_up_is_passed_over: gate::a_later_turn_given_up_is_passed_over();
    gate_a_mark_is_for_one_turn: gate::a_mark_is_for_one_turn();
    inbox_every_post_of_one_thread_comes: inbox::every_post_comes(1, 2);
    inbox_every_post_of_two_threads_comes: inbox::every_post_comes(2, 1);
    inbox_a_nudge_ends_the_sleep: inbox::a_nudge_ends_the_sleep();
    inbox_what_is_taken_back_comes_nowhere_else: inbox::what_is_taken_back_comes_nowhere_else();
    waiters_a_change_finds_who_waits: waiters::a_change_finds_who_waits();
    waiters_the_waiting_ends_once: waiters::the_waiting_ends_once();
    waiters_nothing_is_taken_for_who_is_gone: waiters::nothing_is_taken_for_who_is_gone();
    waiters_each_change_serves_one: waiters::each_change_serves_one();
}
