/* A sender: a process for each parcel of its outbox, and one for what concerns the whole edge. */
/* Takes the answers about parcel p, and sends it. */
#define ON_GOT(r, t) \
    :: d_step { HAS(got[p], MARK(r, t)) && !sender_over[EDGE(p)] -> \
        got[p] = got[p] & ~MARK(r, t); \
        if \
        :: (flight[p] == DUE || flight[p] == SENT || flight[p] == GOT) && IS_OF_THIS_LIFE(r, t) -> \
            flight[p] = GOT; got_by[p] = r; got_token[p] = t \
        :: else \
        fi }
#ifdef MUTANT_OLD_GOT
#define IS_OF_THIS_LIFE(r, t) true
#else
#define IS_OF_THIS_LIFE(r, t) (known[EDGE(p) * REPLICAS + r] == 0 || known[EDGE(p) * REPLICAS + r] == t)
#endif
#define SEND_TO(r) \
    :: d_step { WAITS(p) && (flight[p] == ABSENT || flight[p] == DUE) && !sender_over[EDGE(p)] && phase[r] != OVER -> \
        inbox[r] = inbox[r] | PARCEL(p); flight[p] = SENT }

#if LIVES == 1
#define ON_ANY_GOT(r) ON_GOT(r, 1)
#elif LIVES == 2
#define ON_ANY_GOT(r) ON_GOT(r, 1) ON_GOT(r, 2)
#else
#define ON_ANY_GOT(r) ON_GOT(r, 1) ON_GOT(r, 2) ON_GOT(r, 3)
#endif

proctype Parcel(byte p) {
end:
    do
    :: d_step { p < EMITTED && !posted[p] && (p == 0 || EDGE(p) != EDGE(p - 1) || posted[p - 1]) -> posted[p] = 1 }
    SEND_TO(0)
#if REPLICAS > 1
    SEND_TO(1)
#endif
    ON_ANY_GOT(0)
#if REPLICAS > 1
    ON_ANY_GOT(1)
#endif
    :: d_step { ack[p] && !sender_over[EDGE(p)] ->
        ack[p] = 0;
        if
        :: flight[p] != ABSENT -> flight[p] = STRUCK; got_by[p] = 0; got_token[p] = 0
        :: else
        fi }
#ifdef MUTANT_GOT_IS_ENOUGH
    :: d_step { flight[p] == GOT -> flight[p] = STRUCK }
#endif
    :: d_step { flight[p] == STRUCK ->
        flight[p] = ABSENT;
        if
        :: WAITS(p) ->
            acked[p] = 1; got[p] = 0; rounds = 0;
            item_lost = !outcome[ITEM(p)] && !SUPERSEDED(p) && !retry_half
        :: else
        fi;
        SOUND }
    :: d_step { withdrawn[p] && (flight[p] == DUE || flight[p] == SENT || flight[p] == GOT) -> flight[p] = ABSENT }
    :: d_step { early > 0 && WAITS(p) && (flight[p] == SENT || flight[p] == GOT) -> early--; flight[p] = DUE; got_by[p] = 0; got_token[p] = 0 }
    :: d_step { losses > 0 && got[p] != 0 -> losses--; got[p] = 0 }
    :: d_step { losses > 0 && ack[p] -> losses--; ack[p] = 0 }
    od
}

/* A replica that has started holds nothing of what it held before; and what nobody has got may have been in its socket. */
#ifdef MUTANT_NO_HELLO
#define SEND_AGAIN(r, t)
#else
#define SEND_AGAIN(r, t) \
        for (i : 0 .. PARCELS - 1) { \
            if \
            :: EDGE(i) == s && (flight[i] == SENT || \
                                (flight[i] == GOT && got_by[i] == r && got_token[i] != t)) -> flight[i] = DUE; got_by[i] = 0; got_token[i] = 0 \
            :: else \
            fi \
        } \
        end_sent[s] = 0;
#endif
/* Two hellos of a replica come by two connections. One that is overtaken by the next costs a pause, and no item. */
#if PROMPT
#define IS_FIRST(r, t) ((hello[s] & (MARK(r, t) - MARK(r, 1))) == 0)
#else
#define IS_FIRST(r, t) true
#endif
#define ON_HELLO(r, t) \
    :: d_step { HAS(hello[s], MARK(r, t)) && IS_FIRST(r, t) && !sender_over[s] -> \
        hello[s] = hello[s] & ~MARK(r, t); \
        SEND_AGAIN(r, t) \
        known[s * REPLICAS + r] = t }

#if TOKENS == 2
#define ON_ANY_HELLO(r) ON_HELLO(r, 1) ON_HELLO(r, 2)
#elif TOKENS == 3
#define ON_ANY_HELLO(r) ON_HELLO(r, 1) ON_HELLO(r, 2) ON_HELLO(r, 3)
#else
#define ON_ANY_HELLO(r) ON_HELLO(r, 1) ON_HELLO(r, 2) ON_HELLO(r, 3) ON_HELLO(r, 4)
#endif

#define EMITTED_ALL(s) (posted[EMITTED - 1] && posted[0])
#ifdef MUTANT_END_FIRST
#define NOTHING_WAITS(s) true
#else
#define IS_SETTLED(p, s) (EDGE(p) != s || (!WAITS(p) && flight[p] == ABSENT))
#define NOTHING_WAITS(s) (IS_SETTLED(0, s) && IS_SETTLED(PARCELS - 1, s))
#endif
#define END_TO(r) \
    :: d_step { EMITTED_ALL(s) && NOTHING_WAITS(s) && !end_sent[s] && !sender_over[s] && !out_ended[s] && \
                phase[r] != OVER -> \
        inbox[r] = inbox[r] | END(s); end_sent[s] = 1; end_tried[s] = 1 }

/* Its ledger stays. What its sockets held may stay too, on the other side. */
#define SENDER_DIES \
    sender_crashes--; \
    for (i : 0 .. PARCELS - 1) { \
        if \
        :: EDGE(i) == s -> flight[i] = ABSENT; got_by[i] = 0; got_token[i] = 0 \
        :: else \
        fi \
    } \
    for (i : 0 .. REPLICAS - 1) { known[s * REPLICAS + i] = 0 } \
    end_sent[s] = 0; \
    end_tried[s] = 0
#define SOCKETS_DIE \
    for (i : 0 .. PARCELS - 1) { \
        if \
        :: EDGE(i) == s -> \
            got[i] = 0; \
            ack[i] = 0; \
            for (j : 0 .. REPLICAS - 1) { inbox[j] = inbox[j] & ~PARCEL(i) & ~END(s) } \
        :: else \
        fi \
    } \
    hello[s] = 0; \
    end_ack[s] = 0

proctype Sender(byte s) {
end:
    do
    ON_ANY_HELLO(0)
#if REPLICAS > 1
    ON_ANY_HELLO(1)
#endif
    END_TO(0)
#if REPLICAS > 1
    END_TO(1)
#endif
    :: d_step { end_ack[s] && !sender_over[s] ->
        end_ack[s] = 0;
        if
        :: end_tried[s] -> out_ended[s] = 1; rounds = 0
        :: else
        fi }
    :: d_step { out_ended[s] && EMITTED_ALL(s) && !sender_over[s] -> sender_over[s] = 1; rounds = 0 }
    :: d_step { losses > 0 && hello[s] != 0 -> losses--; hello[s] = 0 }
    :: d_step { losses > 0 && end_ack[s] -> losses--; end_ack[s] = 0 }
    :: d_step { sender_crashes > 0 && !sender_over[s] -> SENDER_DIES }
    :: d_step { sender_crashes > 0 && !sender_over[s] -> SENDER_DIES; SOCKETS_DIE }
    od
}
