/* The protocol between senders and the replicas of one receiver; docs/protocol.md has its rules, README.md says what is
 * simplified. Every step is one transaction of a ledger, or the sending or taking of one message: a process can die
 * between any two steps. MUTANT_X leaves out rule X. */
#include "setup.pml"

/* ---- What is wrong if it is ever true ---- */
bit item_lost;       /* an item was struck off that the receiver has not finished, or one is missing at the end */
bit done_twice;      /* an item's products went on twice */
bit stale_outcome;   /* an outcome was committed whose claim another one holds, or that is of an older revision */
bit old_revision;    /* at the end an older revision stands */
bit ended_early;     /* a replica believes that all has come while an item is missing */
bit stuck;           /* something is unfinished, and nothing will happen any more */
bit timer_was_needed; /* no message was lost, and still only a resend after a pause went on */
#define SOUND \
    assert(!item_lost); assert(!done_twice); assert(!stale_outcome); assert(!old_revision); assert(!ended_early); \
    assert(!stuck); assert(!timer_was_needed)

/* ---- On disk ---- */
bit posted[PARCELS], acked[PARCELS], withdrawn[PARCELS]; /* outbox; withdrawn: posted anew under another number */
bit out_ended[SENDERS];                                  /* nothing is left for this sender to do */
#define UNKNOWN 0
#define FLIGHT 1
#define DONE 2
#define FAILED 3
#define NOBODY REPLICAS
byte row_state[KEYS], row_parcel[KEYS], row_instance[KEYS], row_token[KEYS]; /* ledger of the receiver */
bit input_ended[SENDERS];

/* ---- In memory of a sender ---- */
#define ABSENT 0 /* not sent since the sender started */
#define DUE 1    /* to be sent again at once */
#define SENT 2
#define GOT 3
#define STRUCK 4 /* acknowledged, but not yet in the ledger */
byte flight[PARCELS], got_by[PARCELS], got_token[PARCELS];
byte known[SENDERS * REPLICAS]; /* token of each replica's last hello; 0: none */
bit end_sent[SENDERS], end_tried[SENDERS], sender_over[SENDERS];

/* ---- In memory of a replica ---- */
#define STARTING 0
#define RUN 1
#define OVER 2
#define SLOTS 2
#define FREE 0
#define WORK 1
#define SETTLED 2 /* its outcome is in the ledger */
#define LATE 3    /* the ledger refused its outcome */
byte phase[REPLICAS], token[REPLICAS];
bit stopped[REPLICAS], let_go[REPLICAS], released[REPLICAS];
byte slot_phase[REPLICAS * SLOTS], slot_parcel[REPLICAS * SLOTS], slot_arrivals[REPLICAS * SLOTS];

/* ---- On the wire: sets, since messages of two connections overtake each other ---- */
byte inbox[REPLICAS]; /* bit p: parcel p; bit PARCELS + s: the end of sender s */
#define PARCEL(p) (1 << (p))
#define END(s) (1 << (PARCELS + (s)))
#define MARK(r, t) (1 << ((r) * TOKENS + (t) - 1)) /* replica r in its life t */
short hello[SENDERS], got[PARCELS];
bit ack[PARCELS], end_ack[SENDERS];

/* ---- For the properties ---- */
byte effects[PARCELS];  /* times that the products of an item went on */
bit outcome[PARCELS];   /* the item is finished */
#ifdef MUTANT_TWO_COMMITS
byte owed[REPLICAS * SLOTS]; /* 1: what follows from the slot's item is not in the outbox yet */
#endif

/* With crashes of replicas alone, hello brings everything back at once. */
#if LOSSES == 0 && EARLY == 0 && HANGS == 0 && SENDER_CRASHES == 0 && !defined(REVISIONS) && !defined(RETRY)
#define PROMPT 1
#else
#define PROMPT 0
#endif

/* ---- Faults that are left ---- */
byte crashes = CRASHES, sender_crashes = SENDER_CRASHES, hangs = HANGS, losses = LOSSES, early = EARLY,
     failures = FAILURES;
byte rounds; /* of timers without progress */
#define PATIENCE 3
#ifdef BREADTH_FIRST
byte i, j; /* SPIN has no hidden variables then */
#else
hidden byte i, j;
#endif
bit retried, retry_half; /* retry_half: the receiver's ledger has the item back, the sender's not yet */

#define HAS(set, bit_) (((set) & (bit_)) != 0)
#define WAITS(p) (posted[p] && !acked[p] && !withdrawn[p])
#define SERVES(r) (phase[r] == RUN && !stopped[r])
#define FINISHED(k) (row_state[k] == DONE || row_state[k] == FAILED)
/* A later revision is known: it will be finished in place of this one, or is. */
#define SUPERSEDED(p) (row_state[KEY(p)] != UNKNOWN && REV(row_parcel[KEY(p)]) > REV(p))


#include "sender.pml"
#include "receiver.pml"
#include "world.pml"

init {
    d_step {
        for (i : 0 .. REPLICAS - 1) { token[i] = 1 }
        for (i : 0 .. KEYS - 1) { row_instance[i] = NOBODY }
    }
    atomic {
        run World();
        for (i : 0 .. SENDERS - 1) { run Sender(i) }
        for (i : 0 .. PARCELS - 1) { run Parcel(i) }
        for (i : 0 .. REPLICAS - 1) { run Replica(i) }
    }
}
