/* Reads under `sequential` of a server that is a chain of copies (decision 46). A worker reads the mapped row without
 * asking the server, also when that has died, and must find what anybody was told of before the read began.
 *
 * One worker pushes, and waits each time until it is told that its update is in the row. Others read. The row holds
 * how many updates it has, so it is linearizable if each read finds at least what anybody was told of, or has read,
 * before it began, and at most what was pushed before it ended.
 *
 * Configurations have numbers. Before others can know one that leaves somebody out, its number is decided: it is
 * written where all processes see it. A configuration that leaves nobody out comes without that. A read asks for the
 * number.
 *
 * What must hold besides: every wait ends.
 *
 * Left out: how copies follow each other, which is in chain.pml. Here they hear of configurations at once, and one sees
 * what its neighbours have. */

#ifndef COPIES
#define COPIES 2
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#ifndef READERS
#define READERS 2
#endif
#ifndef READS
#define READS 1  /* of each reader */
#endif
#ifndef UPDATES
#define UPDATES 2
#endif

/* Broken variants, one at a time: each takes a rule away, and must be found (check.py). */
byte broken;
/* A row changes before the copy that follows has the update; before the copies after that one have it. */
#define USES_AT_ONCE (broken == 1)
#define COUNTS_WHAT_CAME (broken == 2)
/* A read asks for no number; asks before it begins; takes any newer configuration for the answer, and does not ask
 * again; reads who served in an older one. */
#define ASKS_NOTHING (broken == 3)
#define ASKS_BEFORE_IT_BEGINS (broken == 4)
#define ASKS_ONCE (broken == 5)
#define READS_WHO_SERVED_BEFORE (broken == 6)
/* Others can know a configuration before its number is decided. */
#define DECIDED_WHEN_OTHERS_KNOW (broken == 7)
/* A copy serves before its lane has used all that it had when it became the first. */
#define SERVES_TOO_SOON (broken == 8)

#define NONE 15
#define CONFIGURATIONS (2 + DEATHS)
#define HAS(set, member) (((set) >> (member)) & 1)
#define MAX(a, b) ((a) > (b) -> (a) : (b))

byte living = (1 << COPIES) - 1;  /* a set of copies, as the chain is */
byte deaths;
byte newest, decided;             /* configurations: known to whoever looks into the store, and to everybody */
byte chain = (1 << COPIES) - 1;   /* of the newest configuration */
byte serving[CONFIGURATIONS];     /* the first one of each chain */
byte removed = NONE;              /* the next configuration leaves it out; the number is decided */
bool has_grown;

byte came[COPIES], used[COPIES];  /* so many updates are in the copy's log, and in its row */
byte inherited[COPIES];           /* so many were in its log when it became the first */

byte pushed, told, server;        /* of the worker that pushes */
byte most_read;

#define LIVES(c) HAS(living, c)
#define SERVES(c) (LIVES(c) && serving[newest] == c && (used[c] >= inherited[c] || SERVES_TOO_SOON))
/* The neighbours of a copy of the chain. */
#define BEFORE(c) (c >= 1 && HAS(chain, c - 1) -> c - 1 : (c >= 2 && HAS(chain, c - 2) -> c - 2 : NONE))
#define AFTER(c) (HAS(chain, c + 1) -> c + 1 : (HAS(chain, c + 2) -> c + 2 : NONE))
#define IS_BEHIND(c, d) (d != NONE && LIVES(d) && came[d] > came[c])
/* The next update that copy c is to use is on copy d, if there is one. */
#define HAS_NEXT(c, d) (d == NONE || came[d] > used[c])
#define ALL_HAVE_NEXT(c) \
  (USES_AT_ONCE || (HAS_NEXT(c, AFTER(c)) && (COUNTS_WHAT_CAME || HAS_NEXT(c, AFTER(AFTER(c))))))
hidden byte i;

proctype Copy(byte c) {
end:
  do
  :: d_step { LIVES(c) && server == c && came[c] < pushed ->
       came[c]++;
       printf("copy %d has update %d\n", c, came[c]) }
  :: d_step { LIVES(c) && HAS(chain, c) && IS_BEHIND(c, BEFORE(c)) ->
       came[c]++;
       printf("copy %d has update %d, from the copy before\n", c, came[c]) }
  :: d_step { LIVES(c) && used[c] < came[c] && ALL_HAVE_NEXT(c) ->
       used[c]++;
       printf("copy %d has used update %d\n", c, used[c]) }
  :: d_step { LIVES(c) && deaths < DEATHS && living != 1 << c ->
       printf("copy %d dies\n", c);
       deaths++;
       living = living & ~(1 << c) }
  od
}

/* The next configuration has the copies of `set`. */
inline make_known(set) {
  chain = set;
  serving[newest + 1] = 0;
  do
  :: !HAS(chain, serving[newest + 1]) -> serving[newest + 1]++
  :: else -> break
  od;
  if
  :: serving[newest + 1] != serving[newest] -> inherited[serving[newest + 1]] = came[serving[newest + 1]]
  :: else
  fi;
  newest++;
  printf("configuration %d can be known: copy %d serves\n", newest, serving[newest])
}

proctype Decider() {
end:
  do
  :: d_step { removed == NONE && (chain & ~living) != 0 ->
       removed = 0;
       do
       :: !HAS(chain & ~living, removed) -> removed++
       :: else -> break
       od;
       if
       :: DECIDED_WHEN_OTHERS_KNOW -> make_known(chain & ~(1 << removed))
       :: else -> decided = newest + 1; printf("configuration %d is decided\n", decided)
       fi;
       skip }
  :: d_step { removed != NONE ->
       if
       :: DECIDED_WHEN_OTHERS_KNOW -> decided = newest; printf("configuration %d is decided\n", decided)
       :: else -> make_known(chain & ~(1 << removed))
       fi;
       removed = NONE }
  :: d_step { removed == NONE && !has_grown -> has_grown = true; make_known(chain) }
  od
}

proctype Pusher() {
  do
  :: d_step { told == pushed && pushed < UPDATES ->
       pushed++;
       printf("update %d is pushed to copy %d\n", pushed, server) }
  :: d_step { told < pushed && used[server] == pushed ->
       told = pushed;
       printf("copy %d tells of update %d\n", server, told) }
  :: d_step { !LIVES(server) && SERVES(serving[newest]) ->
       server = serving[newest];
       printf("copy %d is pushed to; it has %d updates\n", server, came[server]);
       assert(told <= came[server]) }
  :: told == UPDATES -> break
  od
}

mtype = { rests, asks, may_read, doubts, trusts, asked };

proctype Reader() {
  byte number, mapped;  /* the configuration that it goes by; the copy that it reads */
  byte floor, reads;
  mtype state = rests;
  do
  :: d_step { state == rests && reads < READS && !ASKS_BEFORE_IT_BEGINS ->
       floor = MAX(told, most_read);
       state = asks;
       printf("a read begins, and must find %d updates\n", floor) }
  /* Nothing newer was decided, and the copy that serves is the one that is mapped. */
  :: d_step { state == asks && ((decided <= number && (mapped == serving[number] || READS_WHO_SERVED_BEFORE)) ||
                                ASKS_NOTHING) ->
       state = may_read;
       printf("it may read copy %d: configuration %d is the newest decided\n", mapped, decided) }
  :: d_step { state == may_read ->
       printf("it reads copy %d, which has used %d updates\n", mapped, used[mapped]);
       assert(floor <= used[mapped] && used[mapped] <= pushed);
       most_read = MAX(most_read, used[mapped]); floor = 0; reads++; state = rests }
  /* What a reader goes by does not change between its question and its read, or else the read begins anew. */
  :: d_step { (state == rests || state == asks || state == trusts) && number < newest ->
       number++;
       printf("a reader goes by configuration %d\n", number) }
  :: d_step { (state == rests || state == asks || state == trusts) && mapped != serving[number] &&
              SERVES(serving[number]) ->
       mapped = serving[number];
       printf("a reader maps copy %d\n", mapped) }
  :: reads == READS && state == rests -> break
  /* Variants. */
  :: d_step { ASKS_ONCE && state == asks && decided > number ->
       state = doubts;
       printf("it waits: configuration %d is decided\n", decided) }
  :: d_step { state == doubts && number < newest ->
       number++;
       state = trusts;
       printf("it goes by configuration %d\n", number) }
  :: d_step { state == trusts && mapped == serving[number] -> state = may_read }
  :: d_step { ASKS_BEFORE_IT_BEGINS && state == rests && reads < READS && decided <= number &&
              mapped == serving[number] ->
       state = asked;
       printf("a reader asks: configuration %d is the newest decided\n", decided) }
  :: d_step { ASKS_BEFORE_IT_BEGINS && state == asked ->
       floor = MAX(told, most_read);
       state = may_read;
       printf("its read begins, and must find %d updates\n", floor) }
  od
}

init {
  c_code { if (getenv("BROKEN")) now.broken = atoi(getenv("BROKEN")); };
  atomic {
    do
    :: i < COPIES -> run Copy(i); i++
    :: else -> break
    od;
    i = 0;
    do
    :: i < READERS -> run Reader(); i++
    :: else -> break
    od;
    i = 0;
    run Pusher();
    run Decider()
  }
}
