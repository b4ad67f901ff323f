/** What the policy decides by grants: each row states the verdict for grants, an action and a path. */
import t from 'tap'
import { allPermissions, type Permission } from '../../src/accounts/principal.js'
import { asPath, foldCase, type Path } from '../../src/base/path.js'
import { GrantTrie } from '../../src/tree/grant-trie.js'
import { memberFilter, seenNames } from '../../src/tree/policy/names.js'
import {
  isSubjectToGrants,
  contentRefusal,
  folderRights,
  judge,
  judgeEveryMember,
  judgeOtherMembers,
  judgeTarget,
  refusalOf,
  type Action,
  type Verdict,
} from '../../src/tree/policy/one-path.js'
import { readableByMoveRefusal, treeRefusal, unreadableBelow } from '../../src/tree/policy/whole-folders.js'
import { principal, type Asker } from '../accounts/principals.js'
import { grantRow } from '../database/store-rows.js'
import { growth } from '../processor-time.js'
import { ruled, type Asked, type GrantTable } from './ruled-path.js'

const p = asPath

interface Row extends Asked {
  readonly may?: readonly Permission[]
  readonly who?: Asker
  readonly do: Action
  readonly at: string
  readonly verdict: Verdict
}

function table(title: string, rows: readonly Row[]): void {
  void t.test(title, async (t) => {
    for (const row of rows) {
      const { may = [], who, do: action, at, verdict } = row
      const asker = principal({ may, ...who, grantedOnly: row.only === true })
      t.equal(judge(asker, action, p(at), ruled(row, p(at))), verdict, JSON.stringify(row))
    }
  })
}

const every = '+see,read,write,rename,move,copy,remove,share'

table('where no grant mentions a right, see and read are allowed, and the rest needs the permission', [
  { grants: { '/x': '-write' }, do: 'see', at: '/a/b', verdict: 'allow' },
  { grants: { '/x': '-write' }, do: 'list', at: '/a', verdict: 'allow' },
  { grants: { '/x': '-write' }, do: 'read', at: '/a/b', verdict: 'allow' },
  { grants: { '/x': '-write' }, do: 'write', at: '/a/b', verdict: 'denied' },
  { grants: { '/x': '-write' }, may: ['write'], do: 'write', at: '/a/b', verdict: 'allow' },
  { grants: { '/x': '-write' }, may: ['remove'], do: 'remove', at: '/a/b', verdict: 'allow' },
  { grants: { '/x': '-write' }, do: 'write', at: '/a/b', rules: { '/a': { write: true } }, verdict: 'allow' },
])

table('a grant holds for its path and everything below it, and decides before the permission', [
  { grants: { '/a': '+write' }, do: 'write', at: '/a', verdict: 'allow' },
  { grants: { '/a': '+write' }, do: 'write', at: '/a/b/c', verdict: 'allow' },
  { grants: { '/a': '+write' }, do: 'write', at: '/ab', verdict: 'denied' },
  { grants: { '/a': '-write' }, may: ['write'], do: 'write', at: '/a/b', verdict: 'denied' },
  { grants: { '/a': '-write' }, do: 'write', at: '/a/b', rules: { '/a': { write: true } }, verdict: 'denied' },
])

table('the grants at the longest path that mention a right decide', [
  { grants: { '/a': '-write', '/a/b': '+write' }, do: 'write', at: '/a/b/c', verdict: 'allow' },
  { grants: { '/a': '+write', '/a/b': '-write' }, do: 'write', at: '/a/b/c', verdict: 'denied' },
  { grants: { '/a': '+write', '/a/b': '+remove' }, do: 'write', at: '/a/b/c', verdict: 'allow' },
  { grants: { '/a': '-write', 'group:1/a/b': '+write' }, do: 'write', at: '/a/b/c', verdict: 'allow' },
])

table("at one path, a user's own grants decide before those of groups, and among groups a denial wins", [
  { grants: { '/a': '+write', 'group:1/a': '-write' }, do: 'write', at: '/a/b', verdict: 'allow' },
  { grants: { '/a': '-write', 'group:1/a': '+write' }, do: 'write', at: '/a/b', verdict: 'denied' },
  { grants: { 'group:1/a': '+write', 'group:2/a': '-write' }, do: 'write', at: '/a/b', verdict: 'denied' },
  { grants: { '/a': '+read', 'group:1/a': '+write' }, do: 'write', at: '/a/b', verdict: 'allow' },
])

table('a grant that allows anything allows see', [
  { only: true, grants: { '/a': '+write' }, do: 'see', at: '/a/b', verdict: 'allow' },
  { only: true, grants: { '/a': '+write' }, do: 'read', at: '/a/b', verdict: 'denied' },
  { grants: { '/a': '-see', '/a/b': '+copy' }, do: 'list', at: '/a/b', verdict: 'allow' },
])

table('what may not be seen is not found, whatever is done with it', [
  ...(['list', 'see', 'read', 'refresh', 'write', 'rename', 'move', 'copy', 'remove', 'lock'] as const).map(
    (action): Row => ({
      grants: { '/a': '-see' },
      who: { may: ['write'] },
      do: action,
      at: '/a/b',
      verdict: 'not_found',
    }),
  ),
  { grants: { '/': every, '/a': '-see' }, do: 'write', at: '/a/b', verdict: 'not_found' },
  // Not even a rule that hides it may say so.
  { grants: { '/a': '-see' }, do: 'see', at: '/a/b', rules: { '/a': { hide: 'b' } }, verdict: 'not_found' },
])

void t.test('what would be made where nothing is seen is answered as in a missing folder', async (t) => {
  const codeOf = (action: Action) => refusalOf('not_found', action, () => false)?.code
  for (const action of ['write', 'mkdir', 'receive', 'rename to', 'lock'] as const) {
    t.equal(codeOf(action), 'parent_missing', action)
  }
  for (const action of ['list', 'see', 'read', 'rename', 'move', 'remove', 'attributes', 'properties'] as const) {
    t.equal(codeOf(action), 'not_found', action)
  }
  t.equal(refusalOf('not_found', 'write', () => false, false)?.code, 'not_found', 'a file that exists already')
})

table('no grant opens what a folder rule closes, and no rule what a grant closes', [
  { grants: { '/': every }, do: 'see', at: '/a/b', rules: { '/a': { hide: 'b' } }, verdict: 'hidden' },
  { grants: { '/': every }, do: 'list', at: '/a', rules: { '/a': { readUsers: [7] } }, verdict: 'hidden' },
  { grants: { '/': every }, do: 'list', at: '/a', rules: { '/a': { password: 'x' } }, verdict: 'password_required' },
  { grants: { '/': every }, do: 'write', at: '/a/b', rules: { '/a': { writeUsers: [7] } }, verdict: 'denied' },
  { grants: { '/a': '-read' }, do: 'read', at: '/a/b', rules: { '/a': { readUsers: [1] } }, verdict: 'denied' },
  { grants: { '/a': '-write' }, do: 'write', at: '/a/b', rules: { '/a': { writeUsers: [1] } }, verdict: 'denied' },
])

table('a user who is granted only may do nothing that no grant allows, whatever the permissions', [
  { only: true, who: { may: ['write', 'remove'] }, do: 'see', at: '/a', verdict: 'not_found' },
  { only: true, may: ['write'], grants: { '/a': '+read' }, do: 'write', at: '/a/b', verdict: 'denied' },
  { only: true, grants: { '/a': '+see' }, do: 'read', at: '/a/b', verdict: 'denied' },
  { only: true, grants: { '/a': every }, do: 'write', at: '/a/b', verdict: 'allow' },
  {
    only: true,
    grants: { '/a': '+see' },
    do: 'write',
    at: '/a/b',
    rules: { '/a': { write: true } },
    verdict: 'denied',
  },
  { only: true, grants: { '/a': every }, do: 'see', at: '/b', verdict: 'not_found' },
  // The root of a user without grants is empty, and exists.
  { only: true, do: 'list', at: '/', verdict: 'allow' },
  { only: true, do: 'write', at: '/x', verdict: 'not_found' },
  { only: true, who: { base: '/home/ann' }, do: 'list', at: '/home/ann', verdict: 'allow' },
])

table('every right needs see: the way to a grant is seen and listed, and cannot be read or changed', [
  ...(['list', 'see'] as const).map((action): Row => ({
    grants: { '/w': '-see', '/w/a/b': '+read' },
    do: action,
    at: '/w/a',
    verdict: 'allow',
  })),
  ...(['read', 'refresh', 'write', 'rename', 'move', 'copy', 'remove', 'attributes', 'lock'] as const).map(
    (action): Row => ({
      grants: { '/': every, '/w': '-see', '/w/a/b': '+read' },
      may: ['write', 'rename', 'move', 'copy', 'remove'],
      do: action,
      at: '/w/a',
      verdict: 'denied',
    }),
  ),
  { grants: { '/w': '-see', '/w/a/b': '+read' }, do: 'see', at: '/w/c', verdict: 'not_found' },
  { only: true, grants: { '/w/a/b': '+read' }, do: 'list', at: '/w', verdict: 'allow' },
  { only: true, grants: { '/w/a/b': '+read' }, do: 'write', at: '/w/c', verdict: 'not_found' },
  // A grant of a group that another one takes away is no way.
  {
    grants: { '/w': '-see', 'group:1/w/a': '+read', 'group:2/w/a': '-see' },
    do: 'see',
    at: '/w',
    verdict: 'not_found',
  },
])

table('the folder of a grant itself is renamed, moved or removed only with that right from above it', [
  ...(['rename', 'move', 'remove'] as const).flatMap((action): Row[] => [
    { grants: { '/s': every }, do: action, at: '/s', verdict: 'denied' },
    { grants: { '/s': every }, do: action, at: '/s/x', verdict: 'allow' },
    { grants: { '/': every, '/s': every }, do: action, at: '/s', verdict: 'allow' },
    { grants: { '/': every, '/s': `-${action}` }, do: action, at: '/s', verdict: 'denied' },
    { grants: { '/': `-${action}`, '/s': every }, may: [action], do: action, at: '/s', verdict: 'denied' },
    { grants: { '/s': `+${action}` }, may: [action], do: action, at: '/s', verdict: 'allow' },
    { only: true, grants: { '/s': every }, may: [action], do: action, at: '/s', verdict: 'denied' },
  ]),
  { grants: { '/s': every }, do: 'attributes', at: '/s', verdict: 'allow' },
])

table('each action asks its own right', [
  ...(['refresh', 'write', 'mkdir', 'attributes', 'lock', 'properties'] as const).flatMap((action): Row[] => [
    { grants: { '/a': '+write' }, do: action, at: '/a/b', verdict: 'allow' },
    { grants: { '/a': '-write' }, may: ['write'], do: action, at: '/a/b', verdict: 'denied' },
  ]),
  { grants: { '/a': '+rename' }, do: 'rename', at: '/a/b', verdict: 'allow' },
  { grants: { '/a': '+rename' }, do: 'rename to', at: '/a/b', verdict: 'allow' },
  { grants: { '/a/b': '-rename' }, may: ['rename'], do: 'rename to', at: '/a/b', verdict: 'denied' },
  { grants: { '/a': '+move' }, do: 'move', at: '/a/b', verdict: 'allow' },
  { grants: { '/a': '+move -remove' }, do: 'move', at: '/a/b', verdict: 'denied' },
  { grants: { '/a': '+move,remove' }, do: 'move', at: '/a/b', verdict: 'allow' },
  { grants: { '/a': '+copy' }, do: 'copy', at: '/a/b', verdict: 'allow' },
  { grants: { '/a': '-copy' }, may: ['copy'], do: 'copy', at: '/a/b', verdict: 'denied' },
])

table('at the target of a move or copy, write is asked where a grant mentions it, and of those who are granted only', [
  { grants: { '/x': '-see' }, do: 'receive', at: '/a/b', verdict: 'allow' },
  { grants: { '/a': '-write' }, may: ['write'], do: 'receive', at: '/a/b', verdict: 'denied' },
  { grants: { '/a': '+write' }, do: 'receive', at: '/a/b', verdict: 'allow' },
  { only: true, grants: { '/a': '+see' }, may: ['write'], do: 'receive', at: '/a/b', verdict: 'denied' },
])

table('a credential is judged before any grant', [
  { grants: { '/': every }, who: { readOnly: true }, do: 'write', at: '/a', verdict: 'denied' },
  { grants: { '/': every }, who: { signal: AbortSignal.abort() }, do: 'see', at: '/a', verdict: 'unauthenticated' },
  // A signed URL asks no grant.
  { grants: { '/': '-see' }, who: { onlyPath: p('/a/b') }, do: 'read', at: '/a/b', verdict: 'allow' },
  { grants: { '/': '-see' }, who: { onlyPath: p('/a/b') }, do: 'see', at: '/a/b', verdict: 'allow' },
])

table('another spelling of a path on a backend that ignores case has the same grants', [
  { folds: true, grants: { '/Secret': '-see' }, do: 'see', at: '/sECRET/x', verdict: 'not_found' },
  { folds: false, grants: { '/Secret': '-see' }, do: 'see', at: '/sECRET/x', verdict: 'allow' },
  { folds: true, grants: { '/a': '+write', '/A/x': '-write' }, do: 'write', at: '/a/X/y', verdict: 'denied' },
])

void t.test('no grant applies to an admin, by role or by group, or to a signed URL', async (t) => {
  t.equal(isSubjectToGrants(principal({ onlyPath: p('/a') })), false)
  t.equal(isSubjectToGrants(principal({ role: 'admin' })), false)
  t.equal(isSubjectToGrants(principal()), true)
  const groups = {
    of: () => ({ groups: [1], permissions: 0, isAdmin: true, requiresTwoStep: false, requiresProvider: false }),
  }
  t.equal(isSubjectToGrants(principal({ groups })), false)
})

void t.test('the permissions of groups count as those of the user, and change while it is signed in', async (t) => {
  let permissions = 0
  const asker = principal({
    may: [],
    groups: {
      of: () => ({ groups: [1], permissions, isAdmin: false, requiresTwoStep: false, requiresProvider: false }),
    },
  })
  const verdict = () => judge(asker, 'remove', p('/a'), { atPath: undefined, atParent: undefined })
  t.equal(verdict(), 'denied')
  permissions = allPermissions
  t.equal(verdict(), 'allow')
})

void t.test('listings show what is seen and the ways to grants', async (t) => {
  const shown = (asked: Asked, folder: string, names: readonly string[]) => {
    const filter = memberFilter(principal(), p(folder), undefined, undefined, ruled(asked, p(folder)).granted)
    return names.filter((name) => filter.shows(name))
  }
  const names = ['a', 'b', 'c']
  t.same(shown({ grants: { '/a': '-see', '/b': '-read' } }, '/', names), ['b', 'c'])
  t.same(shown({ only: true, grants: { '/a': '+read', '/c/d': '+see' } }, '/', names), ['a', 'c'])
  t.same(shown({ only: true, grants: { '/c/d': '+see' } }, '/c', ['d', 'e']), ['d'])
  t.same(shown({ only: true }, '/', names), [])
  const untouched = memberFilter(
    principal(),
    p('/x'),
    undefined,
    undefined,
    ruled({ grants: { '/a': '-see' } }, p('/x')).granted,
  )
  t.equal(untouched.showsAll, true, 'a folder without grants below is not looked through')
})

void t.test('a change of a whole folder is refused by a grant below it that denies that right or see', async (t) => {
  const refused = (grants: GrantTable, ...actions: readonly Action[]) =>
    treeRefusal(principal({ may: [] }), actions, ruled({ grants }, p('/a')).granted)?.code
  for (const [action, right] of [
    ['remove', 'remove'],
    ['rename', 'rename'],
    ['move', 'move'],
    ['lock', 'write'],
  ] as const) {
    t.equal(refused({ '/': every, '/a/b': `-${right}` }, action), 'denied', action)
    t.equal(refused({ '/': every, '/a/b/c': '-see' }, action), 'denied', action)
    t.equal(refused({ '/': every, '/a/b': '-read' }, action), undefined, action)
    t.equal(refused({ '/': every, '/b': `-${right}` }, action), undefined, action)
    t.equal(refused({ '/a/b': `+${right}`, 'group:1/a/b': `-${right}` }, action), undefined, 'the own grant decides')
  }
  t.equal(refused({ '/': every, '/a/b': '-remove' }, 'move'), 'denied', 'to move is to remove')
  t.equal(refused({ '/': every, '/a/b': '-remove' }, 'rename'), undefined)
  // A copy leaves out what is not seen.
  t.equal(refused({ '/': every, '/a/b': '-see' }, 'copy'), undefined)
  t.equal(refused({ '/': every, '/a/b': '-read' }, 'copy'), 'denied')
  t.equal(refused({ '/': every, '/a/b': '-copy' }, 'copy'), 'denied')
  t.same(unreadableBelow(principal(), ruled({ grants: { '/a/b': '-read', '/a/c': '-see' } }, p('/a')).granted), [
    '/a/b',
  ])
})

void t.test('a move sheds no denial', async (t) => {
  const refused = (grants: GrantTable, isFolder = true) => {
    const [source, target] = [ruled({ grants }, p('/a/x')), ruled({ grants }, p('/b/x'))]
    return readableByMoveRefusal(['move'], source, target, isFolder)?.code
  }
  t.equal(refused({ '/a': '-read' }), 'denied', 'what cannot be read would become readable')
  t.equal(refused({ '/a': '-read', '/b': '-read' }), undefined)
  t.equal(refused({ '/a': '-read', '/b': '-read', '/b/x/y': '+read' }), 'denied')
  t.equal(refused({ '/a': '-read', '/b': '-read', '/b/x/y': '+read' }, false), undefined)
  t.equal(refused({ '/b/x/y': '-write' }), 'denied', 'where it lands')
  t.equal(refused({ '/b/x/y': '-see' }), 'denied')
  t.equal(refused({ '/b/y': '-see' }), undefined)
})

void t.test('the target of a symlink is asked too', async (t) => {
  const asked = { grants: { '/secret': '-see' } }
  const [from, to] = [ruled(asked, p('/link')), ruled(asked, p('/secret/x'))]
  t.equal(judgeTarget(principal(), 'see', from, to, p('/')), 'not_found')
})

void t.test('members without grants of their own follow their folder', async (t) => {
  const at = (grants: GrantTable) => ruled({ grants }, p('/a')).granted
  const who = principal({ may: [] })
  const [some, all] = [judgeEveryMember, judgeOtherMembers].map(
    (decide) => (grants: GrantTable) => decide(who, 'remove', p('/a'), undefined, undefined, at(grants)),
  )
  t.equal(all?.({ '/a': '+remove' }), 'allow')
  t.equal(all?.({ '/a/b': '+remove' }), 'denied')
  t.equal(some?.({ '/a/b': '+remove' }), 'allow', 'each must be asked')
  t.equal(some?.({ '/b': '+remove' }), 'denied')
  t.equal(all?.({ '/a': '-see' }), 'not_found')
})

void t.test('what listings tell of the rights in a folder follows the grants', async (t) => {
  const rights = (grants: GrantTable, rules: Asked['rules'] = {}, may: readonly Permission[] = []) => {
    const { atPath, granted } = ruled({ grants, rules }, p('/a'))
    return folderRights(principal({ may }), p('/a'), atPath, granted)
  }
  t.same(rights({ '/a': '+rename' }), { write: true, writeByRule: false })
  t.same(rights({ '/a': '+see' }), { write: false, writeByRule: false })
  t.same(rights({ '/a': '-write' }, {}, ['write']), { write: false, writeByRule: false })
  t.same(rights({ '/a': '-write' }, { '/a': { write: true } }), { write: false, writeByRule: false })
  t.same(rights({ '/a': '+see' }, { '/a': { write: true } }), { write: true, writeByRule: true })
})

void t.test('the parts that a search asks for are found in a time that grows with the grants', async (t) => {
  const tables = new Map(
    [2000, 20_000].map((count) => {
      const rows = Array.from({ length: count }, (_, at) => [`/d/${at}`, at % 2 === 0 ? '+see' : '-see'] as const)
      const granted = ruled(
        { grants: { ...Object.fromEntries(rows), '/e': '+see', '/e/x': '-see' }, only: true },
        p('/'),
      )
      return [count, granted.granted] as const
    }),
  )
  const seen = seenNames(tables.get(2000), Infinity)
  t.equal(seen?.parts?.length, 1002, 'the ways are parts too')
  t.same(seen?.closed, ['/e/x'], 'what is not within a part need not be excluded')
  const ratio = await growth((size) => seenNames(tables.get(size), Infinity), 2000, 10)
  t.ok(ratio < 30, `10 times as many take ${ratio.toFixed(1)} times as long`)
})

void t.test('a search asks for the parts that are seen', async (t) => {
  const seen = (asked: Asked, maxPaths = 2) => seenNames(ruled(asked, p('/')).granted, maxPaths)
  t.same(seen({ only: true, grants: { '/a/b': '+read' } }), {
    parts: [
      { path: '/a', deep: false },
      { path: '/a/b', deep: true },
    ],
    closed: [],
    isExact: true,
  })
  t.same(seen({ grants: { '/a': '-see' } }), { parts: undefined, closed: ['/a'], isExact: true })
  t.match(seen({ grants: { '/a': '-see', '/a/b': '+see' } }), { parts: undefined, closed: [], isExact: false })
  t.same(seen({ only: true }), { parts: [], closed: [], isExact: true })
  const shut: GrantTable = { '/a': '-see', '/b': '-see', '/c': '+read' }
  t.match(seen({ grants: shut }), { closed: ['/a', '/b'] }, 'a part of what is seen anyway does not count')
  t.equal(seen({ grants: shut }, 1), undefined)
  t.equal(seen({ only: true, grants: { '/a': '+see', '/b': '+see', '/c/d': '+see' } }, 3), undefined)
})

void t.test('a path with grants is compiled once, unless a backend may ignore the case of its name', (t) => {
  const row = (id: number, path: string) => ({ ...grantRow({ userId: 1, path: p(path), deny: ['see'] }), id })
  let ignoresCase = false
  const foldedPath = (path: Path) => (ignoresCase ? foldCase(path) : undefined)
  const trie = new GrantTrie([row(1, '/a/b'), row(2, '/c')], foldedPath, false)
  t.equal(trie.at(p('/a/b')), trie.at(p('/a/b')))
  t.equal(trie.at(p('/A/b')).says('see'), undefined)
  ignoresCase = true
  t.equal(trie.at(p('/A/b')).says('see'), false)
  t.equal(trie.at(p('/C')).says('see'), false)
  ignoresCase = false
  t.equal(trie.at(p('/A/b')).says('see'), undefined)
  t.end()
})

void t.test('content that is seen and not readable is refused', async (t) => {
  const refused = (asked: Asked) => contentRefusal(ruled(asked, p('/a')).granted)?.code
  t.equal(refused({ only: true, grants: { '/a': '+see' } }), 'denied')
  t.equal(refused({ only: true, grants: { '/a': '+read' } }), undefined)
})
