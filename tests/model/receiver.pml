/* A replica of the receiver. All replicas share one ledger. */

#define IS_FREE(r, n) (slot_phase[(r) * SLOTS + (n)] == FREE)
#define FREE_SLOT(r) (IS_FREE(r, 0) || IS_FREE(r, 1))
#define FILL(n, p) \
    slot_phase[n] = WORK; slot_parcel[n] = p; slot_arrivals[n] = PARCEL(p)
/* Claims the row for this replica, and begins. */
#define TAKE(p) \
    row_state[KEY(p)] = FLIGHT; row_parcel[KEY(p)] = p; row_instance[KEY(p)] = r; row_token[KEY(p)] = token[r]; \
    rounds = 0; \
    if \
    :: IS_FREE(r, 0) -> FILL(r * SLOTS, p) \
    :: else -> FILL(r * SLOTS + 1, p) \
    fi; \
    got[p] = got[p] | MARK(r, token[r])
#define HOLDS(n, p) (slot_phase[n] != FREE && KEY(slot_parcel[n]) == KEY(p))
#define JOIN(p) \
    if \
    :: HOLDS(r * SLOTS, p) -> \
        slot_arrivals[r * SLOTS] = slot_arrivals[r * SLOTS] | PARCEL(p); got[p] = got[p] | MARK(r, token[r]) \
    :: !HOLDS(r * SLOTS, p) && HOLDS(r * SLOTS + 1, p) -> \
        slot_arrivals[r * SLOTS + 1] = slot_arrivals[r * SLOTS + 1] | PARCEL(p); got[p] = got[p] | MARK(r, token[r]) \
    :: else \
    fi
#define NEWER(p) (REV(p) > REV(row_parcel[KEY(p)]))
#define ABANDONED(p) \
    (row_instance[KEY(p)] == NOBODY || (row_instance[KEY(p)] == r && row_token[KEY(p)] != token[r]))

/* A later revision waits until the earlier one is finished, or nobody works on it. */
#define IS_AT_REST(p) (FINISHED(KEY(p)) || ABANDONED(p))
#ifdef MUTANT_ANY_REVISION
/* What comes last replaces what is finished. */
#define REPLACES(p) ((NEWER(p) && IS_AT_REST(p)) || (FINISHED(KEY(p)) && SUPERSEDED(p)))
#else
#define REPLACES(p) (NEWER(p) && IS_AT_REST(p))
#endif
#ifdef MUTANT_NO_SECOND_ACK
#define ACK_AGAIN(p)
#else
#define ACK_AGAIN(p) ack[p] = 1
#endif

#define ON_PARCEL(p) \
    :: d_step { SERVES(r) && HAS(inbox[r], PARCEL(p)) && FREE_SLOT(r) -> \
        inbox[r] = inbox[r] & ~PARCEL(p); \
        if \
        :: row_state[KEY(p)] == UNKNOWN || REPLACES(p) -> TAKE(p) \
        :: else -> \
            if \
            :: FINISHED(KEY(p)) || SUPERSEDED(p) -> ACK_AGAIN(p) \
            :: else -> \
                if \
                :: ABANDONED(p) -> TAKE(p) \
                :: else -> \
                    if \
                    :: row_instance[KEY(p)] == r && !NEWER(p) -> JOIN(p) \
                    :: else /* the instance that has it answers */ \
                    fi \
                fi \
            fi \
        fi \
        ACK_WITH_GOT(p) }
#ifdef MUTANT_ACK_FIRST
#define ACK_WITH_GOT(p) ; ack[p] = 1
#else
#define ACK_WITH_GOT(p)
#endif

/* The claim must still be this replica's, and of this revision. */
#define IS_MINE(n) \
    (row_state[KEY(slot_parcel[n])] == FLIGHT && row_instance[KEY(slot_parcel[n])] == r && \
     row_token[KEY(slot_parcel[n])] == token[r] && REV(row_parcel[KEY(slot_parcel[n])]) == REV(slot_parcel[n]))
#if defined(MUTANT_NO_TOKEN)
#define MAY_COMMIT(n) (row_state[KEY(slot_parcel[n])] == FLIGHT)
#elif defined(MUTANT_NO_REVISION)
#define MAY_COMMIT(n) \
    (row_state[KEY(slot_parcel[n])] == FLIGHT && row_instance[KEY(slot_parcel[n])] == r && \
     row_token[KEY(slot_parcel[n])] == token[r])
#else
#define MAY_COMMIT(n) IS_MINE(n)
#endif

/* Commits an outcome, and what follows from it, in one transaction. */
#define COMMIT(n, state) \
    if \
    :: MAY_COMMIT(n) -> \
        stale_outcome = !IS_MINE(n); \
        row_state[KEY(slot_parcel[n])] = state; \
        outcome[ITEM(slot_parcel[n])] = 1; \
        slot_phase[n] = SETTLED; \
        rounds = 0; \
        if \
        :: state == DONE -> POST_WHAT_FOLLOWS(n) \
        :: else \
        fi \
    :: else -> slot_phase[n] = LATE \
    fi
#define COUNT_EFFECT(n) \
    effects[ITEM(slot_parcel[n])]++; done_twice = effects[ITEM(slot_parcel[n])] > 1
#ifdef MUTANT_TWO_COMMITS
#define POST_WHAT_FOLLOWS(n) owed[n] = 1
#define MAY_ACKNOWLEDGE(n) !owed[n]
#define SECOND_COMMIT(n) \
    :: d_step { owed[n] -> owed[n] = 0; COUNT_EFFECT(n) }
#else
#define POST_WHAT_FOLLOWS(n) COUNT_EFFECT(n)
#define MAY_ACKNOWLEDGE(n) true
#define SECOND_COMMIT(n)
#endif
#define FINISH(n) \
    :: d_step { !stopped[r] && slot_phase[n] == WORK -> COMMIT(n, DONE); SOUND } \
    :: d_step { failures > 0 && !stopped[r] && slot_phase[n] == WORK -> failures--; COMMIT(n, FAILED); SOUND }

/* A late outcome counts for nothing; but its arrivals are answered if another outcome stands. */
#define ACKNOWLEDGE(n) \
    :: d_step { SERVES(r) && (slot_phase[n] == SETTLED || slot_phase[n] == LATE) && MAY_ACKNOWLEDGE(n) -> \
        if \
        :: slot_phase[n] == SETTLED || FINISHED(KEY(slot_parcel[n])) -> \
            for (i : 0 .. PARCELS - 1) { \
                if \
                :: HAS(slot_arrivals[n], PARCEL(i)) -> ack[i] = 1 \
                :: else \
                fi \
            } \
        :: else \
        fi; \
        slot_phase[n] = FREE; slot_parcel[n] = 0; slot_arrivals[n] = 0 }

#define ON_END(s) \
    :: d_step { SERVES(r) && HAS(inbox[r], END(s)) -> \
        inbox[r] = inbox[r] & ~END(s); input_ended[s] = 1; end_ack[s] = 1; rounds = 0 }
#if SENDERS == 2
#define ALL_ENDED (input_ended[0] && input_ended[1])
#else
#define ALL_ENDED input_ended[0]
#endif
#define MISSING(p) (WAITS(p) && !outcome[ITEM(p)] && !SUPERSEDED(p) && !retried)

#define RELEASE(r) \
    for (i : 0 .. KEYS - 1) { \
        if \
        :: row_state[i] == FLIGHT && row_instance[i] == r -> row_instance[i] = NOBODY; row_token[i] = 0 \
        :: else \
        fi \
    }

#ifdef MUTANT_TWO_COMMITS
#define FORGET_OWED ; owed[i] = 0
#else
#define FORGET_OWED
#endif
#ifdef MUTANT_DEAD_CLAIMS
#define RELEASE_DEAD(r)
#else
#define RELEASE_DEAD(r) RELEASE(r)
#endif
#ifdef MUTANT_KEEP_CLAIMS
#define RELEASE_HUNG(r)
#else
#define RELEASE_HUNG(r) RELEASE(r)
#endif

proctype Replica(byte r) {
end:
    do
    /* Claims of the life before are released, and hello is said before anything else. */
    :: d_step { phase[r] == STARTING ->
        RELEASE_DEAD(r)
        for (i : 0 .. SENDERS - 1) { hello[i] = hello[i] | MARK(r, token[r]) }
        phase[r] = RUN }
    ON_PARCEL(0)
#if PARCELS > 1
    ON_PARCEL(1)
#endif
    ON_END(0)
#if SENDERS > 1
    ON_END(1)
#endif
    FINISH(r * SLOTS)
    FINISH(r * SLOTS + 1)
    SECOND_COMMIT(r * SLOTS)
    SECOND_COMMIT(r * SLOTS + 1)
    ACKNOWLEDGE(r * SLOTS)
    ACKNOWLEDGE(r * SLOTS + 1)
    :: d_step { SERVES(r) && ALL_ENDED && IS_FREE(r, 0) && IS_FREE(r, 1) ->
        phase[r] = OVER; inbox[r] = 0; rounds = 0;
        ended_early = MISSING(0) || MISSING(PARCELS - 1);
        SOUND }
    :: d_step { losses > 0 && inbox[r] != 0 -> losses--; inbox[r] = 0 }
    /* A crash: also of a replica that is stopped. */
    :: d_step { crashes > 0 && (phase[r] == RUN) ->
        crashes--;
        phase[r] = STARTING; token[r]++; inbox[r] = 0; stopped[r] = 0; let_go[r] = 0; released[r] = 0;
        for (i : r * SLOTS .. r * SLOTS + SLOTS - 1) {
            slot_phase[i] = FREE; slot_parcel[i] = 0; slot_arrivals[i] = 0 FORGET_OWED
        };
        i = 0 }
    /* A hang: it stops, the launcher lets go of its claims in two steps, and it wakes up at any time. */
    :: d_step { hangs > 0 && SERVES(r) -> hangs--; stopped[r] = 1; let_go[r] = 0; released[r] = 0 }
    :: d_step { stopped[r] && !released[r] -> RELEASE_HUNG(r) released[r] = 1 }
    :: d_step { stopped[r] && released[r] && !let_go[r] ->
        let_go[r] = 1;
        for (i : 0 .. SENDERS - 1) { hello[i] = hello[i] | MARK(r, LAUNCHER) };
        i = 0 }
    :: d_step { stopped[r] -> stopped[r] = 0; let_go[r] = 0; released[r] = 0 }
    od
}
