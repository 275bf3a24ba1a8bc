/* A server that is a chain of copies, its workers, and who decides about configurations (decision 46): any copy may die
 * at any moment, and others join. The workers go by BSP.
 *
 * A worker's messages count from 1: message 2t + 1 is its update of clock t, message 2t + 2 the end of that clock. What
 * a copy holds follows from how many messages of each worker its lane has used: rows hold the updates of all clocks
 * that all workers have ended.
 *
 * What must hold:
 *  - Lanes use each message of a worker once, in its order.
 *  - What a worker has forgotten, because the server had used it, and whatever made the server tell a clock, is on each
 *    copy of the newest configuration.
 *  - The clocks that a worker is told of never step back.
 *  - A worker at clock t finds the updates of all clocks below t and no others, also while it waits for a copy.
 *  - Every wait ends: the search finds no state in which somebody waits for ever.
 *
 * Left out: other consistency models, several servers and lanes, bounded rings, control messages, and silence (whoever
 * is suspected is killed, which is a death). */

#ifndef COPIES
#define COPIES 2  /* in the first configuration */
#endif
#ifndef JOINS
#define JOINS 0   /* so many copies may be started later, one for each death */
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef CLOCKS
#define CLOCKS 2
#endif

/* Broken variants, one at a time: each takes a rule away, and must be found (check.py). */
byte broken;
/* What counts: before the copy that follows has it; as soon as it is sent, by the adapter's word; what a copy has whose
 * own followers may lack it; when the follower is gone, and no configuration says so yet. */
#define COUNTS_AT_ONCE (broken == 1)
#define COUNTS_WHAT_IS_SENT (broken == 2)
#define CREDITS_WHAT_CAME (broken == 3)
#define COUNTS_ALONE (broken == 4)
/* One that gets another copy before it follows that while its own followers lack what it has. It is sent what comes
 * next, whatever it has. It hears what the dead one has left in its ring. */
#define FOLLOWS_WITH_UNCOUNTED (broken == 5)
#define GOES_ON_SENDING (broken == 6)
#define HEARS_THE_DEAD (broken == 7)
/* A worker that comes back hears of messages that its copies may lack, and forgets them; says all that it keeps again,
 * whatever the copy has; has forgotten what was only sent; says something new first; is told of clocks while it still
 * reads the rows of the dead one. */
#define WELCOMES_AT_ONCE (broken == 8)
#define SAYS_ALL_AGAIN (broken == 9)
#define FORGETS_WHAT_IS_SENT (broken == 10)
#define NEW_BEFORE_OLD (broken == 11)
#define TOLD_BEFORE_ADOPTED (broken == 12)
/* One that joins is of the chain before it has an image; what comes when it was sent the image, and all that has come
 * meanwhile, counts without it; the image says that it has messages that do not count yet. Another one is given all that
 * counts by one that has joined, and keeps more for later, which is acknowledged. */
#define JOINED_AT_ONCE (broken == 13)
#define COUNTS_WITHOUT_JOINING (broken == 14)
#define IMAGE_SAYS_TOO_MUCH (broken == 15)
#define ENDS_IMAGE_TOO_SOON (broken == 16)
/* A copy serves before its lane has used all that the one before it has sent, and of which workers may have been told. */
#define SERVES_TOO_SOON (broken == 17)

#define ALL (COPIES + JOINS)
#define MESSAGES (2 * CLOCKS)
#define RECORDS (WORKERS * MESSAGES)
#define CONFIGURATIONS (1 + DEATHS + 2 * JOINS)
#define NONE 15
#define NO_IMAGE 0
#define PART 1
#define WHOLE 2
#define HAS(set, member) (((set) >> (member)) & 1)
#define MIN(a, b) ((a) < (b) -> (a) : (b))

/* Copies have numbers in the order in which they come, and that is their order in each chain. */
byte living = (1 << COPIES) - 1;  /* a set, as the chains are */
byte deaths, joins;

/* Configurations. */
byte newest, head;  /* number; the first one of its chain */
byte chain[CONFIGURATIONS], joining[CONFIGURATIONS];
byte given;         /* set: those that have joined and were sent all that counts */
byte with_image;    /* set: copies that have said so and are not in the chain yet */

/* Copies. */
byte known[ALL];                      /* the configuration that it goes by */
byte before[ALL], after[ALL];         /* its neighbours there */
byte followed[ALL], follower[ALL];    /* the neighbours that it is connected to */
byte image[ALL];                      /* one that joins begins with none */
byte log[ALL * RECORDS];              /* records: 16 times the worker, and the number of its message */
byte records[ALL], counted[ALL], used[ALL];  /* so many have come, count, and were used by the lane */
byte inherited[ALL];                  /* so many had come when it became the first */
byte sent[ALL], credit[ALL];          /* so many were sent to the follower, and are acknowledged by it */
chan ring[ALL] = [RECORDS] of { byte, byte };  /* in its memory, from the one before: place in the log, record */
byte came_of[ALL * WORKERS], counted_of[ALL * WORKERS], used_of[ALL * WORKERS];  /* messages of each worker */

/* Workers. */
mtype = { up, joins_again };
mtype state[WORKERS];
byte server[WORKERS], mapped[WORKERS];  /* the copies that it is connected to, and that it reads */
byte made[WORKERS], forgot[WORKERS];    /* messages; those between are kept */
byte told[WORKERS];                     /* so many clocks have ended for all */
chan inbox[WORKERS] = [MESSAGES] of { byte };  /* of its server */

#define WORKER(record) ((record) >> 4)
#define NUMBER(record) ((record) & 15)
#define OF(c, w) ((c) * WORKERS + (w))
#if WORKERS == 1
#define LEAST_CLOCK(messages, c) (messages[c] / 2)
#else
#define LEAST_CLOCK(messages, c) MIN(messages[OF(c, 0)] / 2, messages[OF(c, 1)] / 2)
#endif
#define LIVES(c) HAS(living, c)
/* Nothing waits for one that joins before it was sent all that counts. */
#define HOLDS_UP_NOBODY(c) (after[c] == joining[known[c]] && !HAS(given, after[c]))
/* No copy after it must have what it has: that it has it is enough for the one before. */
#define IS_LAST(c) (after[c] == NONE || HOLDS_UP_NOBODY(c))
#define FOLLOWS_WITH_IMAGE(c) (follower[c] != NONE && image[follower[c]] == WHOLE)
hidden byte i, w, r, old_before, old_after;  /* of single steps */

inline find_neighbours(c) {
  before[c] = NONE;
  after[c] = NONE;
  i = 0;
  do
  :: i == ALL -> break
  :: i < ALL && (i == c || (!HAS(chain[known[c]], i) && joining[known[c]] != i)) -> i++
  :: else ->
     if
     :: i < c -> before[c] = i
     :: i > c && after[c] == NONE -> after[c] = i
     :: else
     fi;
     i++
  od;
  i = 0
}

/* ---- the log */

inline send(c) {
  do
  :: FOLLOWS_WITH_IMAGE(c) && LIVES(follower[c]) && sent[c] < records[c] ->
     ring[follower[c]]!sent[c], log[c * RECORDS + sent[c]];
     sent[c]++
  :: else -> break
  od;
  credit[c] = (COUNTS_WHAT_IS_SENT -> sent[c] : credit[c])
}

inline acknowledge(c, has) {
  if
  :: followed[c] != NONE && LIVES(followed[c]) && credit[followed[c]] < has -> credit[followed[c]] = has
  :: else
  fi
}

/* It is on all copies after this one. Whether the lane has used it makes no difference to the one before. */
inline count(c) {
  w = WORKER(log[c * RECORDS + counted[c]]);
  counted[c]++;
  counted_of[OF(c, w)]++;
  acknowledge(c, counted[c])
}

inline add(c, record) {
  assert(records[c] < RECORDS);
  log[c * RECORDS + records[c]] = record;
  records[c]++;
  came_of[OF(c, WORKER(record))]++;
  if
  :: after[c] == NONE && counted[c] + 1 == records[c] -> count(c)
  :: else -> send(c)
  fi;
  if
  :: CREDITS_WHAT_CAME || IS_LAST(c) -> acknowledge(c, records[c])
  :: else
  fi
}

/* All copies have it: of a chain without a follower that is so at once. */
#define NEXT_COUNTS(c) \
  (after[c] == NONE || (FOLLOWS_WITH_IMAGE(c) && credit[c] > counted[c]) || COUNTS_AT_ONCE || \
   (COUNTS_ALONE && follower[c] != NONE && !LIVES(follower[c])) || \
   HOLDS_UP_NOBODY(c) || (COUNTS_WITHOUT_JOINING && after[c] == joining[known[c]]))

/* The lane. What it has used is released to the worker. */
inline use(c) {
  r = log[c * RECORDS + used[c]];
  w = WORKER(r);
  assert(NUMBER(r) == used_of[OF(c, w)] + 1);
  used_of[OF(c, w)]++;
  used[c]++;
  forgot[w] = (server[w] == c && forgot[w] < NUMBER(r) -> NUMBER(r) : forgot[w])
}

/* ---- the chain */

inline follow(c, p) {
  assert(after[p] == c);
  followed[c] = p;
  follower[p] = c;
  if
  :: image[c] == WHOLE && !GOES_ON_SENDING ->
     assert(counted[p] <= records[c] && records[c] <= records[p]);
     sent[p] = records[c];
     credit[p] = records[c];
     send(p)
  :: else
  fi
}

/* What the copy before has between two records of its log: its lane has used all that counts. */
inline begin_image(c, p) {
  image[c] = PART;
  records[c] = counted[p]; counted[c] = counted[p]; used[c] = counted[p];
  i = 0;
  do
  :: i < WORKERS ->
     came_of[OF(c, i)] = (IMAGE_SAYS_TOO_MUCH -> came_of[OF(p, i)] : counted_of[OF(p, i)]);
     counted_of[OF(c, i)] = counted_of[OF(p, i)];
     used_of[OF(c, i)] = counted_of[OF(p, i)];
     i++
  :: else -> break
  od;
  i = 0
}

/* It has what has counted since, too. From here on nothing counts that it lacks. */
inline end_image(c, p) {
  image[c] = WHOLE;
  given = given | (1 << c);
  with_image = with_image | (1 << c);
  do
  :: records[c] < counted[p] ->
     r = log[p * RECORDS + records[c]];
     log[c * RECORDS + records[c]] = r;
     records[c]++;
     came_of[OF(c, WORKER(r))]++
  :: else -> break
  od;
  sent[p] = counted[p];
  credit[p] = counted[p];
  send(p)
}

inline empty_ring(c) {
  do
  :: len(ring[c]) > 0 -> ring[c]?_, _
  :: else -> break
  od
}

inline hear_of_next_configuration(c) {
  known[c]++;
  old_before = before[c];
  old_after = after[c];
  find_neighbours(c);
  if
  :: before[c] != old_before ->
     followed[c] = NONE;
     if
     :: !HEARS_THE_DEAD -> empty_ring(c)
     :: else
     fi;
     inherited[c] = (before[c] == NONE -> records[c] : 0)
  :: else
  fi;
  follower[c] = (after[c] != old_after -> NONE : follower[c])
}

/* ---- who decides */

inline decide(set, newcomer) {
  joining[newest + 1] = newcomer;
  chain[newest + 1] = set;
  newest++;
  do
  :: !HAS(chain[newest], head) -> head++
  :: else -> break
  od
}

inline admit(c) {
  with_image = with_image & ~(1 << c);
  decide(chain[newest] | (1 << c), NONE)
}

/* Who follows the dead one without being of the chain has to begin anew. */
inline remove(c) {
  if
  :: joining[newest] != NONE && HAS(with_image, joining[newest]) -> admit(joining[newest])
  :: else
  fi;
  if
  :: joining[newest] == c -> decide(chain[newest], NONE)
  :: joining[newest] != c && chain[newest] >> c == 1 -> decide(chain[newest] & ~(1 << c), NONE)
  :: else -> decide(chain[newest] & ~(1 << c), joining[newest])
  fi
}

/* Its memory stays mapped by those who read it: used_of. All else is set to zero so that there are fewer states. */
inline end_process(c) {
  living = living & ~(1 << c);
  with_image = with_image & ~(1 << c);
  before[c] = NONE; after[c] = NONE; followed[c] = NONE; follower[c] = NONE;
  image[c] = NO_IMAGE;
  known[c] = 0; records[c] = 0; counted[c] = 0; used[c] = 0; inherited[c] = 0; sent[c] = 0; credit[c] = 0;
  empty_ring(c);
  i = 0;
  do
  :: i < RECORDS -> log[c * RECORDS + i] = 0; i++
  :: else -> break
  od;
  i = 0;
  do
  :: i < WORKERS ->
     came_of[OF(c, i)] = 0;
     counted_of[OF(c, i)] = 0;
     do
     :: server[i] == c && len(inbox[i]) > 0 -> inbox[i]?_
     :: else -> break
     od;
     i++
  :: else -> break
  od;
  i = 0
}

proctype Copy(byte c) {
  byte place, message;
end:
  do
  /* The server. */
  :: d_step { LIVES(c) && server[0] == c && len(inbox[0]) > 0 ->
       inbox[0]?message;
       printf("copy %d has message %d of worker 0\n", c, message);
       add(c, message); message = 0 }
#if WORKERS == 2
  :: d_step { LIVES(c) && server[1] == c && len(inbox[1]) > 0 ->
       inbox[1]?message;
       printf("copy %d has message %d of worker 1\n", c, message);
       add(c, 16 + message); message = 0 }
#endif
  :: d_step { LIVES(c) && len(ring[c]) > 0 ->
       ring[c]?place, message;
       printf("copy %d has record %d\n", c, place + 1);
       assert(place == records[c]);
       add(c, message); place = 0; message = 0 }
  :: d_step { LIVES(c) && counted[c] < records[c] && NEXT_COUNTS(c) ->
       printf("copy %d: record %d counts\n", c, counted[c] + 1);
       count(c) }
  :: d_step { LIVES(c) && used[c] < counted[c] ->
       printf("copy %d has used record %d\n", c, used[c] + 1);
       use(c) }
  /* The chain. The copy before takes what this one has for counted: so it must count here. */
  :: d_step { LIVES(c) && before[c] != NONE && followed[c] == NONE && LIVES(before[c]) &&
              follower[before[c]] == NONE && known[c] <= known[before[c]] &&
              (counted[c] == records[c] || FOLLOWS_WITH_UNCOUNTED) ->
       printf("copy %d follows copy %d\n", c, before[c]);
       follow(c, before[c]);
       skip }
  :: d_step { LIVES(c) && followed[c] != NONE && LIVES(followed[c]) && image[c] == NO_IMAGE &&
              used[followed[c]] == counted[followed[c]] ->
       printf("copy %d gets an image of copy %d\n", c, followed[c]);
       begin_image(c, followed[c]) }
  :: d_step { LIVES(c) && followed[c] != NONE && LIVES(followed[c]) && image[c] == PART &&
              (counted[followed[c]] == records[followed[c]] || ENDS_IMAGE_TOO_SOON) ->
       printf("copy %d has the whole image\n", c);
       end_image(c, followed[c]) }
  :: d_step { LIVES(c) && known[c] < newest && (HAS(chain[known[c] + 1], c) || joining[known[c] + 1] == c) ->
       printf("copy %d goes by configuration %d\n", c, known[c] + 1);
       hear_of_next_configuration(c) }
  :: d_step { LIVES(c) && known[c] < newest && !HAS(chain[known[c] + 1], c) && joining[known[c] + 1] != c ->
       printf("copy %d ends: it was left out\n", c);
       end_process(c) }
  /* Fate. One copy of the chain survives. */
  :: d_step { LIVES(c) && deaths < DEATHS && (living & chain[newest] & ~(1 << c)) != 0 ->
       printf("copy %d dies\n", c);
       deaths++;
       end_process(c) }
  /* Who decides. */
  :: d_step { !LIVES(c) && (HAS(chain[newest], c) || joining[newest] == c) ->
       remove(c);
       printf("configuration %d leaves out copy %d\n", newest, c) }
  :: d_step { HAS(with_image, c) ->
       admit(c);
       printf("configuration %d has copy %d in the chain\n", newest, c) }
#if JOINS > 0
  :: d_step { c == COPIES + joins && joins < deaths && newest > 0 && joining[newest] == NONE ->
       joins++;
       living = living | (1 << c);
       if
       :: JOINED_AT_ONCE -> decide(chain[newest] | (1 << c), NONE)
       :: else -> decide(chain[newest], c)
       fi;
       printf("configuration %d lets copy %d join\n", newest, c);
       known[c] = newest;
       find_neighbours(c) }
#endif
  od
}

/* ---- workers */

inline put(me, number) {
  if
  :: LIVES(server[me]) -> inbox[me]!number
  :: else
  fi;
  forgot[me] = (FORGETS_WHAT_IS_SENT -> number : forgot[me])
}

/* The copy says how many messages it has, which all count. */
inline come_back(me) {
  state[me] = joins_again;
  server[me] = head;
  assert(forgot[me] <= came_of[OF(head, me)] && came_of[OF(head, me)] <= made[me]);
  forgot[me] = (SAYS_ALL_AGAIN -> forgot[me] : came_of[OF(head, me)])
}

inline say_again(me) {
  w = made[me];
  if
  :: NEW_BEFORE_OLD && made[me] % 2 == 1 -> made[me]++; put(me, made[me])
  :: else
  fi;
  i = forgot[me];
  do
  :: i < w -> i++; put(me, i)
  :: else -> break
  od;
  state[me] = up;
  mapped[me] = server[me]
}

proctype Worker(byte me) {
  do
  :: d_step { state[me] == up && made[me] < MESSAGES && (made[me] % 2 == 1 || told[me] == made[me] / 2) ->
       made[me]++;
       printf("worker %d says message %d\n", me, made[me]);
       put(me, made[me]);
       skip }
  :: d_step { LEAST_CLOCK(used_of, server[me]) != told[me] &&
              (state[me] == up || (state[me] == joins_again && TOLD_BEFORE_ADOPTED)) ->
       printf("worker %d is told clock %d by copy %d\n", me, LEAST_CLOCK(used_of, server[me]), server[me]);
       assert(told[me] < LEAST_CLOCK(used_of, server[me]));
       told[me] = LEAST_CLOCK(used_of, server[me]) }
  :: d_step { !LIVES(server[me]) && LIVES(head) && before[head] == NONE &&
              (came_of[OF(head, me)] == counted_of[OF(head, me)] || WELCOMES_AT_ONCE) &&
              (used[head] >= inherited[head] || SERVES_TOO_SOON || WELCOMES_AT_ONCE) ->
       printf("worker %d comes to copy %d, which has %d messages\n", me, head, came_of[OF(head, me)]);
       come_back(me) }
  /* The copy says where its rows are: at once, or when all is said again. */
  :: d_step { state[me] == joins_again && mapped[me] != server[me] ->
       printf("worker %d reads copy %d\n", me, server[me]);
       mapped[me] = server[me] }
  :: d_step { state[me] == joins_again ->
       printf("worker %d has said all after message %d again, and reads copy %d\n", me, forgot[me], server[me]);
       say_again(me) }
  :: told[me] == CLOCKS -> break
  od
}

/* ---- what must hold in each state, besides the assertions above */

#define KNOWS_OF(c, w) (forgot[w] <= came_of[OF(c, w)] && told[w] <= LEAST_CLOCK(came_of, c))
#define KNOWS(c) (!HAS(living & chain[newest], c) || (KNOWS_OF(c, 0) && KNOWS_OF(c, WORKERS - 1)))
#if ALL == 2
#define ALL_KNOW (KNOWS(0) && KNOWS(1))
#elif ALL == 3
#define ALL_KNOW (KNOWS(0) && KNOWS(1) && KNOWS(2))
#else
#define ALL_KNOW (KNOWS(0) && KNOWS(1) && KNOWS(2) && KNOWS(3))
#endif
/* A worker that may read at its clock. */
#define READS_RIGHT(me) (told[me] < made[me] / 2 || LEAST_CLOCK(used_of, mapped[me]) == made[me] / 2)

proctype Monitor() {
end:
  do
  :: d_step { !ALL_KNOW ->
       printf("a copy of the chain lacks what was forgotten or told\n");
       assert(false) }
  :: d_step { !READS_RIGHT(0) || !READS_RIGHT(WORKERS - 1) ->
       printf("a worker reads what it must not\n");
       assert(false) }
  od
}

init {
  c_code { if (getenv("BROKEN")) now.broken = atoi(getenv("BROKEN")); };
  d_step {
    chain[0] = living;
    joining[0] = NONE;
    r = 0;
    do
    :: r < COPIES ->
       find_neighbours(r);
       followed[r] = before[r];
       follower[r] = after[r];
       image[r] = WHOLE;
       r++
    :: r >= COPIES && r < ALL ->
       before[r] = NONE; after[r] = NONE; followed[r] = NONE; follower[r] = NONE;
       r++
    :: else -> break
    od;
    r = 0;
    do
    :: r < WORKERS -> state[r] = up; r++
    :: else -> break
    od;
    r = 0
  };
  atomic {
    do
    :: i < ALL -> run Copy(i); i++
    :: else -> break
    od;
    i = 0;
    do
    :: i < WORKERS -> run Worker(i); i++
    :: else -> break
    od;
    i = 0;
    run Monitor()
  }
}
