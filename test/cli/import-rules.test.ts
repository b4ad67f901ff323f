/** What imported rules deny, compared with plain evaluations of the rules of the other programs. */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { Path } from '../../src/base/path.js'
import { fromFileBrowser } from '../../src/installation/import/filebrowser.js'
import { namePatterns, type FileBrowserRule } from '../../src/installation/import/filebrowser-rules.js'
import { fromQuantum } from '../../src/installation/import/quantum.js'
import { Report } from '../../src/installation/import/report.js'
import type { ImportedUser } from '../../src/database/installation.js'
import { GrantTrie } from '../../src/tree/grant-trie.js'
import { folder } from './importing.js'

const password = '$2a$10$RgyRpsSksxDTmWjg.YS9gurU2d0w7JgRyXBWQV.41pmIuahpNMynW'

/** Numbers that are the same in each run. */
function random(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

/** Whether the grants of the user let it see a path of the whole tree. */
function sight({ grants, grantedOnly }: ImportedUser): (path: string) => boolean {
  const rows = grants.map((grant, id) => ({ ...grant, id, userId: 1, groupId: undefined }))
  const trie = new GrantTrie(rows, () => undefined, grantedOnly)
  return (path) => trie.at(path as Path).says('see') ?? !grantedOnly
}

/** As File Browser decides: the last rule that matches. `matches`: as one of its versions compares. */
function isAllowed(rules: readonly FileBrowserRule[], path: string, matches: (path: string, rule: string) => boolean) {
  return rules.reduce((allowed, rule) => (matches(path, rule.path) ? rule.allow : allowed), true)
}

const byPrefix = (path: string, rule: string) => path.startsWith(rule)
const byNames = (path: string, rule: string) => rule === '/' || path === rule || path.startsWith(`${rule}/`)

void t.test('File Browser: no path that its rules deny is seen', async (t) => {
  const disk = await folder(t)
  const names = ['a', 'ab', 'b', 'b c', 'ba']
  const paths = [
    '/',
    ...names.flatMap((one) => [`/${one}`, ...names.flatMap((two) => [`/${one}/${two}`, `/${one}/${two}/x`])]),
  ]
  for (const base of ['', 'home']) {
    for (const path of paths) await mkdir(join(disk, base, path), { recursive: true })
  }
  const texts = [
    '/',
    '',
    '/a',
    '/a/',
    '/a/a',
    '/a/b',
    '/ab',
    '/ab/b',
    '/b',
    '/b/b c',
    '/b/a/x',
    'a',
    '/a/../b',
    '/b//a',
    '/q',
  ]
  const exact = texts.filter((text) => /^(?:\/|(?:\/[^/.]+)+)$/.test(text))
  const pick = random(39)
  let [denied, hidden] = [0, 0]
  for (let round = 0; round < 300; round++) {
    const rulesOf = (from: readonly string[]) =>
      Array.from({ length: pick(5) }, () => ({
        ...{ regex: false, allow: pick(2) === 0 },
        path: from[pick(from.length)] ?? '/',
      }))
    const isExact = round % 2 === 0
    const global = rulesOf(isExact ? exact : texts)
    const own = rulesOf(isExact ? exact : texts)
    const scope = pick(2) === 0 ? '/' : '/home'
    const perm = { admin: false, create: true, rename: true, modify: true, delete: true, share: true, download: true }
    const people = [
      { id: 1, username: 'root', password, perm: { ...perm, admin: true } },
      { id: 2, username: 'ann', password, perm, scope, rules: own },
    ]
    const config = JSON.stringify({ server: { root: disk }, settings: { rules: global } })
    const { users } = await fromFileBrowser({ users: JSON.stringify(people), config }, new Report())
    const ann = users[1]
    if (ann === undefined || ann.disabled) throw new Error('ann is not taken')
    const sees = sight(ann)
    const rules = [...global, ...own]
    for (const path of paths) {
      const at = scope === '/' ? path : path === '/' ? scope : scope + path
      // A folder is asked for with and without a slash at the end.
      const before = isAllowed(rules, path, byPrefix) && isAllowed(rules, path === '/' ? path : `${path}/`, byPrefix)
      const since = isAllowed(rules, path, byNames)
      const seen = sees(at)
      const what = () => `${at} with ${JSON.stringify(rules)}`
      if (!(before && since)) denied++
      if (seen && !(before && since)) t.fail(`${what()} is seen and was denied`)
      if (!seen && before && since) hidden++
      // Where no rule denies a prefix of another name, nothing else is denied.
      const isPlain =
        isExact && !rules.some((rule) => !rule.allow && !byNames(path, rule.path) && byPrefix(path, rule.path))
      if (isPlain && seen !== since) t.fail(`${what()} should be ${since ? 'seen' : 'denied'}`)
    }
  }
  t.ok(denied > 1000, 'many paths are denied')
  t.ok(hidden < denied / 5, `few others are: ${hidden} besides ${denied}`)
})

void t.test('File Browser: an expression is a list of names, or none', (t) => {
  for (const [expression, patterns] of [
    ['\\.key$', ['\\.key$']],
    ['(?i)\\.(key|pem)$', ['(?i)\\.(key|pem)$']],
    ['secret', ['secret']],
    ['\\/\\..+', ['^\\.']],
    ['^/private', ['^private']],
    ['^\\/private\\/.*', ['^private$']],
    ['/a|b$', ['^a', 'b$']],
    ['.*\\.tmp', ['\\.tmp']],
    ['^/.*\\.tmp$', ['\\.tmp$']],
    ['/[a-z0-9_]{2,3}\\d+/', ['^[a-z0-9_]{2,3}\\d+$']],
    ['(?:x|y)?z', ['(?:x|y)?z']],
    ['/', ['^']],
    ['', ['^']],
    ['.*', ['^']],
    ['^a', undefined],
    ['a/b', undefined],
    ['a.b', undefined],
    ['[^/]+\\.key', undefined],
    ['[!-~]', undefined],
    ['\\W', undefined],
    ['(/a|b)', undefined],
    ['(a$|b)c', undefined],
    ['/?a', undefined],
    ['.*?a', undefined],
    ['(?P<x>a)', undefined],
    ['a(', undefined],
    ['a\nb', undefined],
    [' ', undefined],
    ['\\pL', undefined],
  ] as const) {
    t.same(namePatterns(expression), patterns, expression)
  }

  const parts = [
    'a',
    'b',
    '/',
    '\\/',
    '.',
    '.*',
    '.+',
    '^',
    '$',
    '\\.',
    '[ab]',
    '\\w',
    '+',
    '?',
    '*',
    '(',
    ')',
    '|',
    '(?:',
  ]
  const names = ['a', 'b', 'ab', 'a.b', '.a', 'b.', 'aa', 'x']
  const paths = [
    '/',
    ...names.flatMap((one) => [`/${one}`, ...names.flatMap((two) => [`/${one}/${two}`, `/x/${one}/${two}`])]),
  ]
  const pick = random(5)
  let taken = 0
  for (let round = 0; round < 20_000; round++) {
    const expression = Array.from({ length: 1 + pick(6) }, () => parts[pick(parts.length)]).join('')
    const patterns = namePatterns(expression)
    if (patterns === undefined) continue
    taken++
    const matchers = patterns.map((pattern) => new RegExp(pattern))
    const original = new RegExp(expression)
    for (const path of paths) {
      if (path === '/' || !original.test(path)) continue
      const isHidden = path
        .slice(1)
        .split('/')
        .some((name) => matchers.some((matcher) => matcher.test(name)))
      if (!isHidden) t.fail(`${expression} denies ${path}, and ${patterns.join(' ')} does not hide it`)
    }
  }
  t.ok(taken > 1000)
  t.end()
})

/** A rule of Quantum. */
interface AccessRule {
  readonly denyAll: boolean
  readonly deny: { readonly users: readonly string[]; readonly groups: readonly string[] }
  readonly allow: { readonly users: readonly string[]; readonly groups: readonly string[] }
}

/** As Quantum decides: the nearest rule that names the user or a group of it, a denial first; then any for all. */
function isPermitted(
  rules: ReadonlyMap<string, AccessRule>,
  groups: Readonly<Record<string, readonly string[]>>,
  username: string,
  path: string,
  otherwise: boolean,
): boolean {
  const above: AccessRule[] = []
  for (let at = path; ; at = at.slice(0, at.lastIndexOf('/')) || '/') {
    const rule = rules.get(at)
    if (rule) above.push(rule)
    if (at === '/') break
  }
  const names = ({ users, groups: named }: AccessRule['deny']) =>
    users.includes(username) || named.some((group) => groups[group]?.includes(username) === true)
  for (const { deny, allow } of above) {
    if (names(deny)) return false
    if (names(allow)) return true
  }
  return otherwise && !above.some(({ denyAll }) => denyAll)
}

void t.test('Quantum: a path of a scope is seen exactly if its rules permit it', async (t) => {
  const names = ['a', 'b', 'ab']
  const paths = [
    '/',
    ...names.flatMap((one) => [`/${one}`, ...names.flatMap((two) => [`/${one}/${two}`, `/${one}/${two}/x`])]),
  ]
  const pick = random(7)
  let [seen, unseen] = [0, 0]
  for (let round = 0; round < 300; round++) {
    const groups = { team: pick(2) === 0 ? ['ann', 'bob'] : ['bob'], other: pick(2) === 0 ? ['ann'] : [] }
    const some = <Item>(...items: readonly Item[]) => items.filter(() => pick(4) === 0)
    const rules = new Map<string, AccessRule>()
    for (let count = pick(6); count > 0; count--) {
      rules.set(paths[pick(paths.length)] ?? '/', {
        denyAll: pick(3) === 0,
        deny: { users: some('ann', 'bob'), groups: some('team', 'other', 'nobody') },
        allow: { users: some('ann', 'bob'), groups: some('team', 'other', 'nobody') },
      })
    }
    const scope = pick(2) === 0 ? '/' : '/a'
    const otherwise = pick(2) === 0
    const all = { view: true, download: true, modify: true, delete: true, create: true }
    const data = (path: string) =>
      JSON.stringify({
        password,
        loginMethod: 'password',
        backendScopes: [{ path: '/srv/data', scope: path, permissions: all }],
      })
    const { users } = await fromQuantum(
      {
        users: [
          { user_id: '1', username: 'root', perm_admin: 1, user_data: data('/') },
          { user_id: '2', username: 'ann', perm_admin: 0, user_data: data(scope) },
        ],
        groups: Object.entries(groups).map(([name, members]) => ({ name, members: JSON.stringify(members) })),
        access_rules: [...rules].map(([path, rule]) => ({
          source: '/srv/data',
          path: path === '/' ? path : `${path}/`,
          rule_data: JSON.stringify(rule),
        })),
        shares: [],
        auth_methods: [],
      },
      { denied: otherwise ? [] : ['/srv/data'], allowed: otherwise ? ['/srv/data'] : [] },
      new Report(),
    )
    const ann = users[1]
    if (ann === undefined || ann.disabled) throw new Error('ann is not taken')
    const sees = sight(ann)
    for (const path of paths) {
      const isWithin = scope === '/' || path === scope || path.startsWith(`${scope}/`)
      const expected = isWithin && isPermitted(rules, groups, 'ann', path, otherwise)
      if (expected) seen++
      else unseen++
      if (sees(path === '/' ? '/data' : `/data${path}`) !== expected) {
        t.fail(`${path} in ${scope} with ${JSON.stringify([...rules])} and ${JSON.stringify(groups)}`)
      }
    }
    if (sees('/') || sees('/other')) t.fail('something outside the source is seen')
  }
  t.ok(seen > 1000 && unseen > 1000, `${seen} are seen, ${unseen} are not`)
})
