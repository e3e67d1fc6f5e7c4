/* Sizes of the model, and who sends what. One of TWO_SOURCES, ONE_ITEM, TWO_ITEMS, REVISIONS and RETRY is defined; the macros below
 * it bound replicas and faults.
 *
 * A parcel is a row of a sender's outbox. EDGE: the sender that posts it. KEY: the row of the receiver's ledger that its
 * item has. ITEM: which item with which revision it truly is, counted by the properties alone. REV: its revision. */
#ifndef REPLICAS
#define REPLICAS 2 /* of the receiver; 1 or 2 */
#endif
#ifndef CRASHES
#define CRASHES 1 /* of replicas */
#endif
#ifndef SENDER_CRASHES
#define SENDER_CRASHES 0
#endif
#ifndef HANGS
#define HANGS 0 /* a replica is stopped for a while, or for ever */
#endif
#ifndef LOSSES
#define LOSSES 0 /* all messages of one kind that a connection holds are lost */
#endif
#ifndef EARLY
#define EARLY 0 /* an item is sent again before anything shows that it must be: every message of it comes twice */
#endif
#ifndef FAILURES
#define FAILURES 0 /* an item fails in the receiver */
#endif

#if defined(TWO_SOURCES)
/* Two senders, each with one item; both items have the same id. */
#define SENDERS 2
#define PARCELS 2
#define EDGE(p) (p)
#define ITEM(p) (p)
#define REV(p) 0
#ifdef ID_ALONE
#define KEY(p) 0
#define KEYS 1
#else
#define KEY(p) (p)
#define KEYS 2
#endif
#elif defined(ONE_ITEM)
#define SENDERS 1
#define PARCELS 1
#define EDGE(p) 0
#define ITEM(p) 0
#define REV(p) 0
#define KEY(p) 0
#define KEYS 1
#elif defined(TWO_ITEMS)
/* One sender with two items. */
#define SENDERS 1
#define PARCELS 2
#define EDGE(p) 0
#define ITEM(p) (p)
#define REV(p) 0
#define KEY(p) (p)
#define KEYS 2
#elif defined(REVISIONS)
/* One sender with one item and a later revision of it. */
#define SENDERS 1
#define PARCELS 2
#define EDGE(p) 0
#define ITEM(p) (p)
#define REV(p) (p)
#define KEY(p) 0
#define KEYS 1
#elif defined(RETRY)
/* One sender with one item, which fails. `retry` puts it back: parcel 1 is what it posts in place of parcel 0. */
#define SENDERS 1
#define PARCELS 2
#define EDGE(p) 0
#define ITEM(p) 0
#define REV(p) 0
#define KEY(p) 0
#define KEYS 1
#else
#error "define one of TWO_SOURCES, ONE_ITEM, TWO_ITEMS, REVISIONS, RETRY"
#endif

/* Parcels that the sender posts of its own accord come first. */
#ifdef RETRY
#define EMITTED 1
#else
#define EMITTED PARCELS
#endif

#define LIVES (CRASHES + 1)
#define LAUNCHER (LIVES + 1) /* the token of a hello that the launcher says in a replica's name */
#define TOKENS LAUNCHER
