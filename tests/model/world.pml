/* The launcher, `icestream retry`, and the clock: timers fire when nothing else is left to do. */

#define LIVE(r) (phase[r] == RUN && !stopped[r])
#if REPLICAS > 1
#define BOTH(what) (what(0) && what(1))
#else
#define BOTH(what) what(0)
#endif
#if SENDERS > 1
#define ALL_SENDERS(what) (what(0) && what(1))
#else
#define ALL_SENDERS(what) what(0)
#endif
#define IDLE(r) \
    (phase[r] == OVER || (stopped[r] && let_go[r]) || \
     (phase[r] == RUN && !stopped[r] && inbox[r] == 0 && IS_FREE(r, 0) && IS_FREE(r, 1) && !ALL_ENDED))
#define NO_ANSWERS(s) (sender_over[s] || (hello[s] == 0 && !end_ack[s] && !out_ended[s]))
#define NO_NEWS(p) \
    (sender_over[EDGE(p)] || (got[p] == 0 && !ack[p] && flight[p] != STRUCK && flight[p] != DUE && \
     !(WAITS(p) && flight[p] == ABSENT && !BOTH(IS_OVER)) && (!withdrawn[p] || flight[p] == ABSENT) && (p >= EMITTED || posted[p])))
#define IS_OVER(r) (phase[r] == OVER)
#define SENDER_OVER(s) sender_over[s]
#define END_GOES(s) (sender_over[s] || end_sent[s] || !NOTHING_WAITS(s))
#define QUIET \
    (BOTH(IDLE) && ALL_SENDERS(NO_ANSWERS) && ALL_SENDERS(END_GOES) && NO_NEWS(0) && NO_NEWS(PARCELS - 1) && \
     !retry_half && !BOTH(IS_OVER))
#define WAITS_FOR_ANSWER(p) (WAITS(p) && !sender_over[EDGE(p)] && (flight[p] == SENT || flight[p] == GOT))
#define END_WAITS(s) (end_sent[s] && !out_ended[s] && !sender_over[s])

#define ANY_WAITS \
    (WAITS_FOR_ANSWER(0) || WAITS_FOR_ANSWER(PARCELS - 1) || END_WAITS(0) || END_WAITS(SENDERS - 1))
#define SOMEONE_STOPPED (stopped[0] || stopped[REPLICAS - 1])

/* Every timer has run out: what is not answered is sent again. */
#define ROUND(r) \
    :: d_step { QUIET && SERVES(r) && (ANY_WAITS || !SOMEONE_STOPPED) -> \
        rounds++; \
        timer_was_needed = PROMPT; \
        stuck = rounds > PATIENCE || !ANY_WAITS; \
        for (i : 0 .. PARCELS - 1) { \
            if \
            :: WAITS_FOR_ANSWER(i) -> inbox[r] = inbox[r] | PARCEL(i); flight[i] = SENT; got_by[i] = 0; got_token[i] = 0 \
            :: else \
            fi \
        } \
        for (i : 0 .. SENDERS - 1) { \
            if \
            :: END_WAITS(i) -> inbox[r] = inbox[r] | END(i) \
            :: else \
            fi \
        }; \
        i = 0; \
        SOUND }

/* `retry` puts an item back in the receiver's ledger, then in the sender's. */
#ifdef MUTANT_RETRY_BACKWARDS
#define FIRST_HALF SENDERS_HALF
#define SECOND_HALF RECEIVERS_HALF
#else
#define FIRST_HALF RECEIVERS_HALF
#define SECOND_HALF SENDERS_HALF
#endif
#define RECEIVERS_HALF \
    if \
    :: row_state[0] == FAILED -> \
        row_state[0] = FLIGHT; row_instance[0] = NOBODY; row_token[0] = 0; outcome[0] = 0 \
    :: else \
    fi
/* The parcel gets a new number: answers to the old one are void. */
#ifdef MUTANT_SAME_NUMBER
#define SENDERS_HALF acked[0] = 0
#else
#define SENDERS_HALF withdrawn[0] = 1; posted[PARCELS - 1] = 1
#endif

#define ALL_OVER (BOTH(IS_OVER) && ALL_SENDERS(SENDER_OVER) && !retry_half)
#define IS_MISSING(p) (p < EMITTED && effects[ITEM(p)] == 0 && row_state[KEY(p)] != FAILED && !SUPERSEDED(p))

/* A person will retry what has failed, sooner or later. */
#ifdef RETRY
#define RETRY_WILL_COME (row_state[0] == FAILED)
#else
#define RETRY_WILL_COME false
#endif

proctype World() {
end:
    do
    ROUND(0)
#if REPLICAS > 1
    ROUND(1)
#endif
    /* The launcher: a sender that has started again need not announce its end to receivers that have ended. */
    :: d_step { BOTH(IS_OVER) && (!out_ended[0] || !out_ended[SENDERS - 1]) ->
        for (i : 0 .. SENDERS - 1) { out_ended[i] = 1 };
        i = 0 }
#ifdef RETRY
    :: d_step { row_state[0] == FAILED && !retried -> retried = 1; retry_half = 1; FIRST_HALF }
    :: d_step { retry_half -> retry_half = 0; SECOND_HALF; rounds = 0 }
    /* The run is over; the next one does what was put back too late for it. All processes and sockets are new. */
    :: d_step { ALL_OVER && (WAITS(0) || WAITS(PARCELS - 1)) ->
        item_lost = !retried;
        for (i : 0 .. REPLICAS - 1) { phase[i] = STARTING; inbox[i] = 0; known[i] = 0 }
        for (i : 0 .. PARCELS - 1) { flight[i] = ABSENT; got_by[i] = 0; got_token[i] = 0; got[i] = 0; ack[i] = 0 }
        input_ended[0] = 0; out_ended[0] = 0; sender_over[0] = 0; end_sent[0] = 0; end_tried[0] = 0;
        hello[0] = 0; end_ack[0] = 0; rounds = 0;
        SOUND }
#endif
    :: d_step { ALL_OVER && (retried || !RETRY_WILL_COME) && !WAITS(0) && !WAITS(PARCELS - 1) ->
        item_lost = IS_MISSING(0) || IS_MISSING(PARCELS - 1);
        old_revision = REV(row_parcel[KEY(PARCELS - 1)]) != REV(PARCELS - 1);
        SOUND };
        break
#ifndef RETRY
    :: d_step { ALL_OVER && (WAITS(0) || WAITS(PARCELS - 1)) -> item_lost = 1; SOUND }
#endif
    od
}
