//! What is changed in the sources of Lua 5.1.5.
//!
//! Each change replaces a text that must occur exactly once in its file: another release of Lua fails the build rather
//! than to lose a change.

struct Patch {
    file: &'static str,
    old: &'static str,
    new: &'static str,
}

const fn patch(file: &'static str, old: &'static str, new: &'static str) -> Patch {
    Patch { file, old, new }
}

/// The text of a source with its changes.
pub fn apply(name: &str, mut text: String) -> String {
    for patch in PATCHES.iter().flat_map(|group| group.iter()).filter(|patch| patch.file == name) {
        let count = text.matches(patch.old).count();
        assert_eq!(count, 1, "{name} has {count} times the text to be replaced: {}", patch.old);
        text = text.replace(patch.old, patch.new);
    }
    text
}

const PATCHES: [&[Patch]; 5] = [&MEMORY, &STRINGS, &WORK, &LOOPS, &SHORT_WAYS];

/// Faults that write or read outside of memory.
const MEMORY: [Patch; 12] = [
    // CVE-2025-46817: the number of results overflows.
    patch(
        "lbaselib.c",
        "  int i, e, n;\n  luaL_checktype(L, 1, LUA_TTABLE);\n  i = luaL_optint(L, 2, 1);",
        "  int i, e;\n  unsigned int n;\n  luaL_checktype(L, 1, LUA_TTABLE);\n  i = luaL_optint(L, 2, 1);",
    ),
    patch(
        "lbaselib.c",
        "  n = e - i + 1;  /* number of elements */\n  if (n <= 0 || !lua_checkstack(L, n))  /* n <= 0 means arith. overflow */",
        "  n = (unsigned int)e - (unsigned int)i;  /* number of elements minus 1 */\n  if (n < (unsigned int)LUAI_MAXCSTACK) onrush_lua_work(L, n >> 2);\n  if (n >= (unsigned int)LUAI_MAXCSTACK || !lua_checkstack(L, (int)++n))",
    ),
    patch("lbaselib.c", "    lua_rawgeti(L, 1, i);\n  return n;\n}", "    lua_rawgeti(L, 1, i);\n  return (int)n;\n}"),
    // CVE-2025-49844: nothing holds the name of the chunk while it is parsed.
    patch(
        "lparser.c",
        "  struct FuncState funcstate;\n  lexstate.buff = buff;\n  luaX_setinput(L, &lexstate, z, luaS_new(L, name));",
        "  struct FuncState funcstate;\n  TString *tname = luaS_new(L, name);\n  setsvalue2s(L, L->top, tname);\n  incr_top(L);\n  lexstate.buff = buff;\n  luaX_setinput(L, &lexstate, z, tname);",
    ),
    patch(
        "lparser.c",
        "  lua_assert(lexstate.fs == NULL);\n  return funcstate.f;",
        "  lua_assert(lexstate.fs == NULL);\n  L->top--;  /* the name of the chunk */\n  return funcstate.f;",
    ),
    // CVE-2025-46819: the signs of a long bracket are counted in an int.
    patch(
        "llex.c",
        "static int skip_sep (LexState *ls) {\n  int count = 0;",
        "/* 0: no bracket; 1: a single one; otherwise the number of `=' plus 2 */\nstatic size_t skip_sep (LexState *ls) {\n  size_t count = 0;",
    ),
    patch(
        "llex.c",
        "  return (ls->current == s) ? count : (-count) - 1;",
        "  return (ls->current == s) ? count + 2 : (count == 0) ? 1 : 0;",
    ),
    patch(
        "llex.c",
        "static void read_long_string (LexState *ls, SemInfo *seminfo, int sep) {",
        "static void read_long_string (LexState *ls, SemInfo *seminfo, size_t sep) {",
    ),
    patch(
        "llex.c",
        "          int sep = skip_sep(ls);\n          luaZ_resetbuffer(ls->buff);  /* `skip_sep' may dirty the buffer */\n          if (sep >= 0) {",
        "          size_t sep = skip_sep(ls);\n          luaZ_resetbuffer(ls->buff);  /* `skip_sep' may dirty the buffer */\n          if (sep >= 2) {",
    ),
    patch(
        "llex.c",
        "        int sep = skip_sep(ls);\n        if (sep >= 0) {\n          read_long_string(ls, seminfo, sep);\n          return TK_STRING;\n        }\n        else if (sep == -1) return '[';",
        "        size_t sep = skip_sep(ls);\n        if (sep >= 2) {\n          read_long_string(ls, seminfo, sep);\n          return TK_STRING;\n        }\n        else if (sep == 1) return '[';",
    ),
    patch(
        "llex.c",
        "          if (sep == 0)\n            luaX_lexerror(ls, \"nesting",
        "          if (sep == 2)\n            luaX_lexerror(ls, \"nesting",
    ),
    patch(
        "llex.c",
        "luaZ_buffer(ls->buff) + (2 + sep),\n                                     luaZ_bufflen(ls->buff) - 2*(2 + sep));",
        "luaZ_buffer(ls->buff) + sep,\n                                     luaZ_bufflen(ls->buff) - 2*sep);",
    ),
];

/// The table of all strings is hashed by all bytes and a secret. The hash of table keys, which decides the order of
/// `pairs`, is Redis's: it covers all bytes too, and is computed when a string first is a key. A table in which many
/// keys meet in one place goes over to the hash with the secret, once there is memory for its new places: a refused
/// allocation leaves a table as it is. While a table puts its keys into new places, none of them makes it go over.
const STRINGS: [Patch; 18] = [
    patch(
        "lobject.h",
        "    unsigned int hash;\n    size_t len;\n  } tsv;",
        "    unsigned int hash;  /* in tables; 0: not computed yet */\n    unsigned int place;  /* with the secret */\n    unsigned int len;\n  } tsv;",
    ),
    patch("lstring.h", "((s)->len+1)*sizeof(char)", "((size_t)(s)->len+1)*sizeof(char)"),
    patch("lstring.c", "  if (l+1 > (MAX_SIZET - sizeof(TString))/sizeof(char))", "  if (l >= 0xfffffff0u)"),
    patch("lstring.c", "if (ts->tsv.len == l && (memcmp", "if (ts->tsv.place == h && ts->tsv.len == l && (memcmp"),
    patch(
        "lobject.h",
        "  lu_byte lsizenode;  /* log2 of size of `node' array */\n",
        "  lu_byte lsizenode;  /* log2 of size of `node' array */\n  lu_byte is_secret;  /* see `ltable.h' */\n",
    ),
    patch(
        "ltable.h",
        "LUAI_FUNC const TValue *luaH_getnum (Table *t, int key);",
        "/* values of `is_secret': by what the keys of a table are placed */\n\
         #define BY_HASH		0\n\
         #define BY_SECRET	1\n\
         #define BY_HASH_STILL	2  /* keys are being put into new places */\n\
         #define BY_SECRET_NEXT	3  /* by the hash until there are new places */\n\
         \n\
         LUAI_FUNC const TValue *luaH_getnum (Table *t, int key);",
    ),
    patch("ltable.c", "  t->lsizenode = 0;\n  t->node", "  t->lsizenode = 0;\n  t->is_secret = BY_HASH;\n  t->node"),
    patch(
        "ltable.c",
        "  setnodevector(L, t, nhsize);  \n",
        r"  setnodevector(L, t, nhsize);
  /* nothing below needs more memory */
  if (t->is_secret == BY_SECRET_NEXT) t->is_secret = BY_SECRET;
  else if (t->is_secret == BY_HASH) t->is_secret = BY_HASH_STILL;
",
    ),
    patch(
        "ltable.c",
        "  if (nold != dummynode)\n    luaM_freearray",
        r"  if (t->is_secret == BY_HASH_STILL) t->is_secret = BY_HASH;
  if (nold != dummynode)
    luaM_freearray",
    ),
    patch(
        "ltable.c",
        "  for (i = 1; i < numints; i++) a[0] += a[i];\n",
        "  if (t->is_secret == BY_SECRET) return hashpow2(t, luaS_place(cast(const char *, a), sizeof(a)));\n  for (i = 1; i < numints; i++) a[0] += a[i];\n",
    ),
    patch(
        "ltable.c",
        "static TValue *newkey (",
        "/* most keys in one place of a table before it goes over to the secret */\n#define CHAIN_MAX	40\n\nstatic TValue *newkey (",
    ),
    patch(
        "ltable.c",
        "      /* new node will go into free position */\n",
        r"      if (t->is_secret == BY_HASH || t->is_secret == BY_SECRET_NEXT) {
        int count = 0;
        for (othern = mp; othern != NULL; othern = gnext(othern)) count++;
        if (count > CHAIN_MAX) {
          t->is_secret = BY_SECRET_NEXT;
          rehash(L, t, key);  /* puts all keys into their new places */
          return luaH_set(L, t, key);
        }
      }
      /* new node will go into free position */
",
    ),
    patch(
        "lstring.h",
        "LUAI_FUNC void luaS_resize (lua_State *L, int newsize);",
        "LUAI_FUNC void luaS_resize (lua_State *L, int newsize);\n\
         LUAI_FUNC unsigned int luaS_hashkey (TString *ts);\n\
         LUAI_FUNC unsigned int luaS_place (const char *s, size_t l);\n\
         #define luaS_hash(ts)	((ts)->tsv.hash ? (ts)->tsv.hash : luaS_hashkey(ts))",
    ),
    patch("ltable.c", "#include \"lstate.h\"\n", "#include \"lstate.h\"\n#include \"lstring.h\"\n"),
    patch(
        "ltable.c",
        "hashpow2(t, (str)->tsv.hash)",
        "hashpow2(t, (t)->is_secret == BY_SECRET ? (str)->tsv.place : luaS_hash(str))",
    ),
    patch(
        "lstring.c",
        "\n\nvoid luaS_resize (lua_State *L, int newsize) {",
        r"

static uint64_t seeds[2];


LUA_API void onrush_lua_seed (uint64_t first, uint64_t second) {
  seeds[0] = first;
  seeds[1] = second;
}


static uint64_t load (const char *p, size_t l) {
  uint64_t w = 0;
  memcpy(&w, p, l);
  return w;
}


static uint64_t mix (uint64_t a, uint64_t b) {
  unsigned __int128 m = (unsigned __int128)(a ^ seeds[0]) * (b ^ seeds[1]);
  return (uint64_t)m ^ (uint64_t)(m >> 64);
}


/* where a string is in the table of all strings, and of a table that goes by the secret */
unsigned int luaS_place (const char *s, size_t l) {
  uint64_t h = l;
  for (; l > 16; s += 16, l -= 16)
    h = mix(load(s, 8), load(s + 8, 8) ^ h);
  if (l > 8)
    h = mix(load(s, 8), load(s + 8, l - 8) ^ h);
  else
    h = mix(load(s, l), h);
  return cast(unsigned int, h ^ (h >> 32));
}


/* where a string is in a table that has it as a key */
unsigned int luaS_hashkey (TString *ts) {
  unsigned int h = cast(unsigned int, ts->tsv.len);  /* seed */
  size_t l1;
  for (l1 = ts->tsv.len; l1 >= 1; l1--)
    h = h ^ ((h<<5)+(h>>2)+cast(unsigned char, getstr(ts)[l1-1]));
  if (h == 0) h = 1;  /* 0: not yet known */
  ts->tsv.hash = h;
  return h;
}


void luaS_resize (lua_State *L, int newsize) {",
    ),
    patch("lstring.c", "      unsigned int h = gco2ts(p)->hash;", "      unsigned int h = gco2ts(p)->place;"),
    patch(
        "lstring.c",
        "  ts->tsv.hash = h;\n  ts->tsv.marked",
        "  ts->tsv.hash = 0;\n  ts->tsv.place = h;\n  ts->tsv.marked",
    ),
];

/// Native code counts its work in the count of the hook: the hook is called in time after long work, and inside of
/// loops that the arguments make long.
const WORK: [Patch; 23] = [
    patch(
        "lua.h",
        "LUA_API int lua_gethookcount (lua_State *L);",
        r"LUA_API int lua_gethookcount (lua_State *L);

/* counts work; true if the hook is due */
LUA_API int onrush_lua_spend (lua_State *L, size_t work);
/* counts work, and calls the hook if it is due */
LUA_API void onrush_lua_work (lua_State *L, size_t work);",
    ),
    patch(
        "lstate.h",
        "#define G(L)	(L->l_G)",
        r"#define G(L)	(L->l_G)

/* counts work; the hook is called behind the present instruction if it is due */
#define luai_charge(L,work) \
  ((L)->hookcount > 1 ? (void)((L)->hookcount = \
    (size_t)(work) < (size_t)(L)->hookcount ? (L)->hookcount - (int)(work) : 1) : (void)0)",
    ),
    patch(
        "ldebug.c",
        "LUA_API int lua_gethookcount (lua_State *L) {\n  return L->basehookcount;\n}",
        r"LUA_API int lua_gethookcount (lua_State *L) {
  return L->basehookcount;
}


LUA_API int onrush_lua_spend (lua_State *L, size_t work) {
  luai_charge(L, work);
  if (L->hookcount != 1) return 0;
  resethookcount(L);
  return 1;
}


LUA_API void onrush_lua_work (lua_State *L, size_t work) {
  if (onrush_lua_spend(L, work))
    luaD_callhook(L, LUA_HOOKCOUNT, -1);
}",
    ),
    patch(
        "lmem.c",
        "  lua_assert((osize == 0) == (block == NULL));\n  block",
        "  lua_assert((osize == 0) == (block == NULL));\n  if (nsize >= 256) luai_charge(L, nsize >> 5);\n  block",
    ),
    patch(
        "lstring.c",
        "  unsigned int h = cast(unsigned int, l);  /* seed */\n  size_t step = (l>>5)+1;  /* if string is too long, don't hash all its chars */\n  size_t l1;\n  for (l1=l; l1>=step; l1-=step)  /* compute hash */\n    h = h ^ ((h<<5)+(h>>2)+cast(unsigned char, str[l1-1]));",
        "  unsigned int h = luaS_place(str, l);\n  if (l >= 256) luai_charge(L, l >> 5);",
    ),
    patch("lstring.c", "#include <string.h>\n", "#include <stdint.h>\n#include <string.h>\n"),
    patch(
        "lvm.c",
        "    return l_strcmp(rawtsvalue(l), rawtsvalue(r)) < 0;",
        "  {\n    luai_charge(L, tsvalue(l)->len >> 3);\n    return l_strcmp(rawtsvalue(l), rawtsvalue(r)) < 0;\n  }",
    ),
    patch(
        "lvm.c",
        "    return l_strcmp(rawtsvalue(l), rawtsvalue(r)) <= 0;",
        "  {\n    luai_charge(L, tsvalue(l)->len >> 3);\n    return l_strcmp(rawtsvalue(l), rawtsvalue(r)) <= 0;\n  }",
    ),
    // A long string may spell a number.
    patch(
        "lvm.h",
        "                         (((o) = luaV_tonumber(o,n)) != NULL))",
        "                         (luaV_chargetext(L, o), ((o) = luaV_tonumber(o,n)) != NULL))\n\n\
         #define luaV_chargetext(L,o) \\\n  \
         (ttisstring(o) && tsvalue(o)->len >= 32 ? luai_charge(L, tsvalue(o)->len >> 3) : (void)0)",
    ),
    patch(
        "lvm.c",
        "  const TValue *b, *c;\n  if ((b = luaV_tonumber(rb, &tempb)) != NULL &&",
        "  const TValue *b, *c;\n  luaV_chargetext(L, rb);\n  luaV_chargetext(L, rc);\n  if ((b = luaV_tonumber(rb, &tempb)) != NULL &&",
    ),
    patch(
        "lbaselib.c",
        "    n = strtoul(s1, &s2, base);",
        "    onrush_lua_work(L, lua_objlen(L, 1) >> 3);\n    n = strtoul(s1, &s2, base);",
    ),
    // The parser reads a token at a time.
    patch(
        "llex.c",
        "void luaX_next (LexState *ls) {\n",
        "void luaX_next (LexState *ls) {\n  onrush_lua_work(ls->L, 4);\n",
    ),
    patch(
        "ltable.c",
        "  int i = findindex(L, t, key);  /* find original element */",
        "  int i = findindex(L, t, key);  /* find original element */\n  int first = i;",
    ),
    patch(
        "ltable.c",
        "      setobj2s(L, key+1, &t->array[i]);\n      return 1;",
        "      setobj2s(L, key+1, &t->array[i]);\n      luai_charge(L, (i - first) >> 2);\n      return 1;",
    ),
    patch(
        "ltable.c",
        "      setobj2s(L, key+1, gval(gnode(t, i)));\n      return 1;",
        "      setobj2s(L, key+1, gval(gnode(t, i)));\n      luai_charge(L, (i + t->sizearray - first) >> 2);\n      return 1;",
    ),
    // A full array with keys beyond it at the powers of two is searched from its beginning.
    patch("ltable.h", "LUAI_FUNC int luaH_getn (Table *t);", "LUAI_FUNC int luaH_getn (lua_State *L, Table *t);"),
    patch(
        "ltable.c",
        "static int unbound_search (Table *t, unsigned int j) {",
        "static int unbound_search (lua_State *L, Table *t, unsigned int j) {",
    ),
    patch(
        "ltable.c",
        "      while (!ttisnil(luaH_getnum(t, i))) i++;\n",
        "      while (!ttisnil(luaH_getnum(t, i))) i++;\n      luai_charge(L, i >> 2);\n",
    ),
    patch("ltable.c", "int luaH_getn (Table *t) {", "int luaH_getn (lua_State *L, Table *t) {"),
    patch("ltable.c", "  else return unbound_search(t, j);", "  else return unbound_search(L, t, j);"),
    patch("lvm.c", "luaH_getn(hvalue(rb))", "luaH_getn(L, hvalue(rb))"),
    patch("lapi.c", "luaH_getn(hvalue(o))", "luaH_getn(L, hvalue(o))"),
    patch(
        "ltable.c",
        "  return 0;  /* no more elements */",
        "  luai_charge(L, (i + t->sizearray - first) >> 2);\n  return 0;  /* no more elements */",
    ),
];

/// Loops in the libraries that the arguments make long.
const LOOPS: [Patch; 25] = [
    patch(
        "lstrlib.c",
        "  while (n-- > 0)\n    luaL_addlstring(&b, s, l);",
        "  while (n-- > 0) {\n    onrush_lua_work(L, 1);\n    luaL_addlstring(&b, s, l);\n  }",
    ),
    patch(
        "lstrlib.c",
        "  int level;  /* total number of captures (finished or unfinished) */\n  struct {",
        "  int level;  /* total number of captures (finished or unfinished) */\n  int left;  /* steps until work is counted */\n  struct {",
    ),
    patch(
        "lstrlib.c",
        "static int check_capture (MatchState *ms, int l) {",
        r"#define STEPS	64

static void work (MatchState *ms, size_t steps) {
  if (steps < (size_t)ms->left) ms->left -= (int)steps;
  else {
    onrush_lua_work(ms->L, steps + STEPS - ms->left);
    ms->left = STEPS;
  }
}


static int check_capture (MatchState *ms, int l) {",
    ),
    patch(
        "lstrlib.c",
        "    int cont = 1;\n    while (++s < ms->src_end) {",
        "    int cont = 1;\n    work(ms, (size_t)(ms->src_end - s) >> 4);\n    while (++s < ms->src_end) {",
    ),
    // A class of characters is as long as the pattern makes it.
    patch(
        "lstrlib.c",
        "      if (*p == '^') p++;\n      do {  /* look for a `]' */",
        "      const char *first = p;\n      if (*p == '^') p++;\n      do {  /* look for a `]' */",
    ),
    patch(
        "lstrlib.c",
        "      } while (*p != ']');\n      return p+1;",
        "      } while (*p != ']');\n      work(ms, (size_t)(p - first) >> 2);\n      return p+1;",
    ),
    patch(
        "lstrlib.c",
        "  ptrdiff_t i = 0;  /* counts maximum expand for item */\n",
        "  ptrdiff_t i = 0;  /* counts maximum expand for item */\n  size_t len = (size_t)(ep - p);\n",
    ),
    patch(
        "lstrlib.c",
        "  while ((s+i)<ms->src_end && singlematch(uchar(*(s+i)), p, ep))\n    i++;\n  /* keeps trying to match with the maximum repetitions */",
        "  while ((s+i)<ms->src_end && singlematch(uchar(*(s+i)), p, ep)) {\n    if (len > 8) work(ms, len >> 3);\n    i++;\n  }\n  work(ms, (size_t)i >> 2);\n  /* keeps trying to match with the maximum repetitions */",
    ),
    patch(
        "lstrlib.c",
        "    else if (s<ms->src_end && singlematch(uchar(*s), p, ep))\n      s++;",
        "    else if (s<ms->src_end && singlematch(uchar(*s), p, ep)) {\n      if (ep - p > 8) work(ms, (size_t)(ep - p) >> 3);\n      s++;\n    }",
    ),
    // Many arguments and results.
    patch(
        "lstrlib.c",
        "  luaL_checkstack(L, n, \"string slice too long\");",
        "  onrush_lua_work(L, (size_t)n >> 2);\n  luaL_checkstack(L, n, \"string slice too long\");",
    ),
    patch(
        "lstrlib.c",
        "  luaL_Buffer b;\n  luaL_buffinit(L, &b);\n  for (i=1; i<=n; i++) {",
        "  luaL_Buffer b;\n  onrush_lua_work(L, (size_t)n >> 1);\n  luaL_buffinit(L, &b);\n  for (i=1; i<=n; i++) {",
    ),
    patch(
        "lstrlib.c",
        "  len = ms->capture[l].len;\n  if ((size_t)(ms->src_end-s) >= len &&",
        "  len = ms->capture[l].len;\n  if ((size_t)(ms->src_end-s) >= len) work(ms, len >> 5);\n  if ((size_t)(ms->src_end-s) >= len &&",
    ),
    patch(
        "lstrlib.c",
        "static const char *match (MatchState *ms, const char *s, const char *p) {\n",
        "static const char *match (MatchState *ms, const char *s, const char *p) {\n  work(ms, 2);\n",
    ),
    patch(
        "lstrlib.c",
        "static const char *lmemfind (const char *s1, size_t l1,",
        "static const char *lmemfind (lua_State *L, const char *s1, size_t l1,",
    ),
    patch(
        "lstrlib.c",
        "      else {  /* correct `l1' and `s1' to try again */",
        "      else {  /* correct `l1' and `s1' to try again */\n        onrush_lua_work(L, 1 + (l2 >> 5));",
    ),
    patch("lstrlib.c", "lmemfind(s+init, l1-init, p, l2);", "lmemfind(L, s+init, l1-init, p, l2);"),
    patch(
        "lstrlib.c",
        "    ms.L = L;\n    ms.src_init = s;",
        "    ms.L = L;\n    ms.left = STEPS;\n    ms.src_init = s;",
    ),
    patch(
        "lstrlib.c",
        "  ms.L = L;\n  ms.src_init = s;\n  ms.src_end = s+ls;",
        "  ms.L = L;\n  ms.left = STEPS;\n  ms.src_init = s;\n  ms.src_end = s+ls;",
    ),
    patch("lstrlib.c", "  ms.L = L;\n  ms.src_init = src;", "  ms.L = L;\n  ms.left = STEPS;\n  ms.src_init = src;"),
    patch("ltablib.c", "  for (i=1; i <= n; i++) {\n", "  for (i=1; i <= n; i++) {\n    onrush_lua_work(L, 1);\n"),
    patch(
        "ltablib.c",
        "  while (lua_next(L, 1)) {\n    lua_pushvalue(L, 2);",
        "  while (lua_next(L, 1)) {\n    onrush_lua_work(L, 1);\n    lua_pushvalue(L, 2);",
    ),
    patch(
        "ltablib.c",
        "  while (lua_next(L, 1)) {\n    lua_pop(L, 1);",
        "  while (lua_next(L, 1)) {\n    onrush_lua_work(L, 1);\n    lua_pop(L, 1);",
    ),
    patch("ltablib.c", "  for ( ;pos<e; pos++) {\n", "  for ( ;pos<e; pos++) {\n    onrush_lua_work(L, 1);\n"),
    patch("ltablib.c", "  for (; i < last; i++) {\n", "  for (; i < last; i++) {\n    onrush_lua_work(L, 1);\n"),
    patch(
        "ltablib.c",
        "static int sort_comp (lua_State *L, int a, int b) {\n",
        "static int sort_comp (lua_State *L, int a, int b) {\n  onrush_lua_work(L, 4);\n",
    ),
];

/// Short ways for what scripts do all the time. Each leads to the same values as the long way.
const SHORT_WAYS: [Patch; 9] = [
    // A whole number of up to 15 digits is read without `strtod`: a double holds it exactly.
    patch(
        "lobject.c",
        "  char *endptr;\n  *result = lua_str2number(s, &endptr);\n",
        r"  char *endptr;
  const char *p = s;
  long long whole = 0;
  while (*p >= '0' && *p <= '9' && p - s < 15) whole = whole * 10 + (*p++ - '0');
  if (*p == '\0' && p != s) {
    *result = cast_num(whole);
    return 1;
  }
  *result = lua_str2number(s, &endptr);
",
    ),
    // An empty table that stands in for another one: a field is looked up there at once, without the metatable.
    patch(
        "lobject.h",
        "  struct Table *metatable;\n  TValue *array;  /* array part */",
        "  lu_byte stands_for;  /* 0, or a place in `stood_for' */\n  struct Table *metatable;\n  TValue *array;  /* array part */",
    ),
    patch(
        "ltable.c",
        "  t->is_secret = BY_HASH;\n  t->node",
        "  t->is_secret = BY_HASH;\n  t->stands_for = 0;\n  t->node",
    ),
    patch(
        "lstate.h",
        "  lua_CFunction panic;  /* to be called in unprotected errors */",
        "  struct Table *stood_for[256];  /* kept by the registry; the first one is not used */\n  int last_stood_for;\n  lua_CFunction panic;  /* to be called in unprotected errors */",
    ),
    patch("lstate.c", "  g->gcdept = 0;\n", "  g->gcdept = 0;\n  g->last_stood_for = 0;\n"),
    patch(
        "lvm.c",
        "void luaV_gettable (lua_State *L, const TValue *t, TValue *key, StkId val) {\n  int loop;\n",
        r"void luaV_gettable (lua_State *L, const TValue *t, TValue *key, StkId val) {
  int loop;
  if (ttistable(t) && ttisstring(key) && hvalue(t)->stands_for != 0) {
    const TValue *res = luaH_getstr(G(L)->stood_for[hvalue(t)->stands_for], rawtsvalue(key));
    if (!ttisnil(res)) {
      setobj2s(L, val, res);
      return;
    }
  }
",
    ),
    patch(
        "lvm.c",
        "      const TValue *res = luaH_get(h, key); /* do a primitive get */\n",
        "      const TValue *res = ttisstring(key) ? luaH_getstr(h, rawtsvalue(key)) : luaH_get(h, key);\n",
    ),
    patch(
        "lua.h",
        "LUA_API void  (lua_rawseti) (lua_State *L, int idx, int n);",
        r"LUA_API void  (lua_rawseti) (lua_State *L, int idx, int n);

LUA_API void onrush_lua_stand_for (lua_State *L, int idx);
LUA_API int onrush_lua_has_fields (lua_State *L, int idx);
LUA_API int onrush_lua_look (lua_State *L, int idx, const char **text, size_t *len, lua_Number *number);
LUA_API void onrush_lua_set_text (lua_State *L, int idx, int n, const char *text, size_t len);",
    ),
    patch(
        "lapi.c",
        "LUA_API void lua_rawseti (lua_State *L, int idx, int n) {",
        r"/* pops a table that the registry keeps; fields missing in the table at `idx' are looked up there first */
LUA_API void onrush_lua_stand_for (lua_State *L, int idx) {
  global_State *g = G(L);
  Table *h;
  api_checknelems(L, 1);
  h = hvalue(index2adr(L, idx));
  if (h->stands_for == 0 && g->last_stood_for < 255)
    h->stands_for = cast_byte(++g->last_stood_for);
  if (h->stands_for != 0)
    g->stood_for[h->stands_for] = hvalue(L->top - 1);
  L->top--;
}


/* false only if a table has nothing outside of its array */
LUA_API int onrush_lua_has_fields (lua_State *L, int idx) {
  Table *h = hvalue(index2adr(L, idx));
  return h->lsizenode != 0 || !ttisnil(gval(gnode(h, 0)));
}


/* the type of a value, and the value itself if it is a string or a number */
LUA_API int onrush_lua_look (lua_State *L, int idx, const char **text, size_t *len, lua_Number *number) {
  StkId o = index2adr(L, idx);
  if (ttisstring(o)) {
    *text = svalue(o);
    *len = tsvalue(o)->len;
  }
  else if (ttisnumber(o))
    *number = nvalue(o);
  return (o == luaO_nilobject) ? LUA_TNONE : ttype(o);
}


/* stores a string in a list; the index is not relative to the top */
LUA_API void onrush_lua_set_text (lua_State *L, int idx, int n, const char *text, size_t len) {
  Table *h;
  TValue *o;
  luaC_checkGC(L);
  setsvalue2s(L, L->top, luaS_newlstr(L, text, len));
  api_incr_top(L);
  h = hvalue(index2adr(L, idx));
  o = (n >= 1 && n <= h->sizearray) ? &h->array[n - 1] : luaH_setnum(L, h, n);
  setobj2t(L, o, L->top - 1);
  luaC_barriert(L, h, L->top - 1);
  L->top--;
}


LUA_API void lua_rawseti (lua_State *L, int idx, int n) {",
    ),
];
