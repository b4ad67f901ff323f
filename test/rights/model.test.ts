/** The model of rights: each sentence that it follows, by example, and what the generated questions reach. */
import t from 'tap'
import type { Permission } from '../../src/accounts/principal.js'
import { asPath, root, type Path } from '../../src/base/path.js'
import { Random } from '../soak/chaos/random.js'
import { generateQuestion, generateWorld } from './generate.js'
import {
  decide,
  kinds,
  needsSignature,
  refusesWholeTree,
  rights,
  visible,
  wayTo,
  type Decision,
  type Entry,
  type Grant,
  type Group,
  type Question,
  type Right,
  type Rule,
  type Step,
  type User,
  type World,
} from './model.js'

const changing: readonly Permission[] = ['write', 'rename', 'move', 'copy', 'remove', 'share']

/**
 * `ann` may do everything, `bob` has no permission, `gil` is granted only and may do everything elsewhere, `carl` may
 * do everything below /home. `ann` and `gil` are members of `staff` and `crew`.
 */
const ids = { admin: 1, guest: 2, ann: 3, bob: 4, gil: 5, carl: 6, staff: 1, crew: 2, chiefs: 3 } as const
type Name = keyof typeof ids
const groupNames: readonly string[] = ['staff', 'crew', 'chiefs']

function user(name: Name, fields: Partial<User> = {}): User {
  return {
    id: ids[name],
    role: 'general',
    permissions: changing,
    base: root,
    grantedOnly: false,
    expires: undefined,
    allowFrom: [],
    ...fields,
  }
}

const users: readonly User[] = [
  user('admin', { role: 'admin' }),
  user('guest', { role: 'guest', permissions: [] }),
  user('ann'),
  user('bob', { permissions: [] }),
  user('gil', { grantedOnly: true }),
  user('carl', { base: asPath('/home') }),
]

function group(name: Name, members: readonly Name[], fields: Partial<Group> = {}): Group {
  return { id: ids[name], permissions: [], admin: false, members: members.map((each) => ids[each]), ...fields }
}

const groups = [group('staff', ['ann', 'gil']), group('crew', ['ann', 'gil'])]

/** Folders end with a slash. */
const tree = [
  '/a/',
  '/a/b/',
  '/a/b/c/',
  '/a/b/c/deep',
  '/a/file',
  '/sales/',
  '/sales/june',
  '/d/',
  '/d/file',
  '/home/',
  '/home/x/',
]

function entriesOf(paths: readonly string[]): readonly Entry[] {
  return paths.map((text) => ({
    path: asPath(text.replace(/\/$/, '')),
    kind: text.endsWith('/') ? ('folder' as const) : ('file' as const),
  }))
}

/** From `ann /sales +see +read -write`; `all` are all rights. */
function grantOf(text: string, index: number): Grant {
  const [name = '', path = '', ...signed] = text.split(' ')
  const id = ids[name as Name]
  const listed = (sign: string) =>
    signed
      .filter((each) => each.startsWith(sign))
      .flatMap((each) => (each === `${sign}all` ? rights : [each.slice(1) as Right]))
  return {
    id: index + 1,
    subject: groupNames.includes(name) ? { group: id } : { user: id },
    path: asPath(path),
    allow: listed('+'),
    deny: listed('-'),
  }
}

interface WorldFields {
  readonly grants?: readonly string[]
  readonly rules?: readonly (Omit<Rule, 'path'> & { readonly path: string })[]
  readonly users?: readonly User[]
  readonly groups?: readonly Group[]
  readonly entries?: readonly string[]
  readonly symlinks?: readonly (readonly [path: string, target: string])[]
}

function worldOf(fields: WorldFields): World {
  const changed = fields.users ?? []
  return {
    users: users.map((each) => changed.find(({ id }) => id === each.id) ?? each),
    groups: fields.groups ?? groups,
    grants: (fields.grants ?? []).map(grantOf),
    rules: (fields.rules ?? []).map((rule) => ({ ...rule, path: asPath(rule.path) })),
    entries: entriesOf([...tree, ...(fields.entries ?? [])]),
    symlinks: (fields.symlinks ?? []).map(([path, target]) => ({ path: asPath(path), target: asPath(target) })),
  }
}

/** From `ann move /a/file /d/file`. */
function questionOf(text: string, options: Partial<Question> = {}): Question {
  const [name = '', action = '', path = '', to] = text.split(' ')
  return {
    user: ids[name as Name],
    action: action as Right,
    path: asPath(path),
    ...(to === undefined ? {} : { to: asPath(to) }),
    protocol: 'http',
    time: 0,
    network: 'office',
    ...options,
  }
}

function answerOf({ allowed, error, decidedBy }: Decision): string {
  return allowed ? 'allowed' : `${error}, ${decidedBy.step}`
}

type Answer = 'allowed' | `${string}, ${Step}`
type Ask = readonly [question: string, answer: Answer, options?: Partial<Question>]

interface Example extends WorldFields {
  readonly sentence: string
  readonly asks: readonly Ask[]
}

const examples: readonly Example[] = [
  {
    sentence: 'a grant holds for the path and all below it',
    grants: ['gil /a +read'],
    asks: [
      ['gil read /a', 'allowed'],
      ['gil read /a/b/c/deep', 'allowed'],
      ['gil read /d', 'not_found, notSeen'],
      ['gil read /ab', 'not_found, notSeen'],
    ],
  },
  {
    sentence: 'a grant that allows anything allows `see`',
    grants: ['gil /a +write'],
    asks: [
      ['gil see /a/file', 'allowed'],
      ['gil write /a/file', 'allowed'],
      ['gil read /a/file', 'denied, grantedOnly'],
    ],
  },
  {
    sentence: 'general permissions are those of the user together with those of the groups',
    groups: [group('staff', ['bob'], { permissions: ['remove'] }), group('crew', ['bob'], { permissions: ['write'] })],
    asks: [
      ['bob remove /a/file', 'allowed'],
      ['bob write /a/file', 'allowed'],
      ['bob share /a/file', 'denied, permission'],
      ['ann share /a/file', 'allowed'],
    ],
  },
  {
    sentence: 'what no step refuses is allowed, and the first that refuses gives the answer',
    grants: ['ann /a/b -see'],
    rules: [{ path: '/a', hide: ['^b$'], password: 'p', passwordSub: true, writeUsers: [1], writeUsersSub: true }],
    asks: [
      ['ann write /a/b', 'unauthenticated, credential', { revoked: true }],
      ['ann write /a/b', 'not_found, notSeen'],
      ['bob write /a/b', 'hidden, hidden'],
      ['ann write /a/file', 'password_required, password'],
      ['ann write /a/file', 'denied, writeUsers', { password: 'p' }],
      ['ann read /a/file', 'allowed', { password: 'p' }],
    ],
  },
  {
    sentence: 'users without grants: `see` and `read` are allowed, the rest needs the general permission',
    asks: [
      ['bob see /a', 'allowed'],
      ['bob read /a/file', 'allowed'],
      ['bob rename /a/file /a/other', 'denied, permission'],
      ['bob move /a/file /d/other', 'denied, permission'],
      ['bob copy /a/file /d/other', 'denied, permission'],
      ['bob remove /a/file', 'denied, permission'],
      ['bob share /a/file', 'denied, permission'],
      ['guest read /a/file', 'allowed'],
      ['guest write /a/file', 'denied, permission'],
    ],
  },
  {
    sentence: '1. a credential that is revoked, past its end or from a network that is not allowed',
    users: [user('ann', { expires: 10, allowFrom: ['office'] })],
    asks: [
      ['ann see /a', 'allowed', { time: 9 }],
      ['ann see /a', 'unauthenticated, credential', { time: 10 }],
      ['ann see /a', 'unauthenticated, credential', { network: 'home' }],
      ['ann see /a', 'unauthenticated, credential', { revoked: true }],
    ],
  },
  {
    sentence: "1. the protocol's permissions, of the user or of a group",
    users: [user('ann', { permissions: [...changing, 'webdavRead'] })],
    groups: [group('staff', ['bob'], { permissions: ['sftpRead', 'sftpManage', 'write'] })],
    asks: [
      ['ann read /a/file', 'allowed', { protocol: 'webdav' }],
      ['ann write /a/file', 'denied, protocol', { protocol: 'webdav' }],
      ['ann read /a/file', 'denied, protocol', { protocol: 'sftp' }],
      ['bob write /a/file', 'allowed', { protocol: 'sftp' }],
    ],
  },
  {
    sentence: '1. a read-only app password',
    asks: [
      ['ann read /a/file', 'allowed', { readOnly: true }],
      ['ann write /a/file', 'denied, readOnly', { readOnly: true }],
    ],
  },
  {
    sentence: '1. a signed URL is judged as today and asks no grant',
    grants: ['ann /a -see'],
    rules: [{ path: '/a', password: 'p', passwordSub: true }],
    asks: [
      ['ann read /a/file', 'allowed', { signed: asPath('/a/file') }],
      ['ann read /a/b', 'denied, signed', { signed: asPath('/a/file') }],
      ['ann write /a/file', 'denied, signed', { signed: asPath('/a/file') }],
      ['ann read /d/link', 'denied, signed', { signed: asPath('/d/link') }],
      ['ann read /a/link', 'allowed', { signed: asPath('/a/link') }],
      ['ann read /a/out', 'allowed', { signed: asPath('/a/out') }],
    ],
    symlinks: [
      ['/d/link', '/a/file'],
      ['/a/link', '/a/b'],
      ['/a/out', '/d/file'],
    ],
  },
  {
    sentence: '2. a name that a folder rule hides',
    rules: [{ path: '/a', hide: ['^b$'] }],
    users: [user('bob', { permissions: ['seeHidden'] })],
    asks: [
      ['ann see /a/b', 'hidden, hidden'],
      ['ann see /a/b/c', 'hidden, hidden'],
      ['ann move /a/file /a/b/file', 'hidden, hidden'],
      ['ann see /a/file', 'allowed'],
      ['bob see /a/b', 'allowed'],
      ['admin see /a/b', 'hidden, hidden'],
    ],
  },
  {
    sentence: '2. `see` refused by the grants: not found, and as in a missing folder for what would be made there',
    grants: ['ann /a/b -see'],
    asks: [
      ['ann see /a/b', 'not_found, notSeen'],
      ['ann see /a/b/none', 'not_found, notSeen'],
      ['ann remove /a/b/c', 'not_found, notSeen'],
      ['ann write /a/b/c/deep', 'not_found, notSeen'],
      ['ann write /a/b/new', 'parent_missing, notSeen', { makes: true }],
      ['ann move /d/file /a/b/file', 'parent_missing, notSeen'],
      ['ann copy /d/file /a/b/file', 'parent_missing, notSeen'],
      ['ann rename /a/file /a/b', 'parent_missing, notSeen'],
    ],
  },
  {
    sentence: '3. `read_users`',
    rules: [{ path: '/a', readUsers: [ids.ann] }],
    asks: [
      ['ann read /a/file', 'allowed'],
      ['bob see /a', 'hidden, readUsers'],
      ['bob read /a/file', 'hidden, readUsers'],
      ['bob read /a/missing', 'hidden, readUsers'],
      ['bob see /a/b', 'allowed'],
      ['admin read /a/file', 'hidden, readUsers'],
    ],
  },
  {
    sentence: '3. the password, which is asked after `read_users`; a nearer rule without one takes it off',
    rules: [
      { path: '/a', password: 'p', passwordSub: true, readUsers: [ids.ann, ids.gil], readUsersSub: true },
      { path: '/a/b' },
      { path: '/d', password: 'q' },
    ],
    users: [user('gil', { permissions: ['skipPasswords'] })],
    asks: [
      ['ann read /a/file', 'password_required, password'],
      ['ann read /a/file', 'password_required, password', { password: 'q' }],
      ['ann read /a/file', 'allowed', { password: 'p' }],
      ['bob read /a/file', 'hidden, readUsers', { password: 'p' }],
      ['gil read /a/file', 'allowed'],
      ['bob read /a/b/c/deep', 'allowed'],
      ['bob read /d/file', 'password_required, password'],
    ],
  },
  {
    sentence: '4. the right by the deciding grant, for and against the general permission',
    grants: ['ann /a -write', 'bob /a +write'],
    asks: [
      ['ann write /a/file', 'denied, grant'],
      ['ann write /d/file', 'allowed'],
      ['bob write /a/file', 'allowed'],
      ['bob write /d/file', 'denied, permission'],
      ['ann remove /a/file', 'allowed'],
    ],
  },
  {
    sentence: '4. `write` where no grant mentions it: or a folder rule with `write`',
    rules: [
      { path: '/a', write: true },
      { path: '/d', write: true, writeSub: true },
    ],
    asks: [
      ['bob write /a/file', 'allowed'],
      ['bob write /a/new', 'allowed', { makes: true }],
      ['bob write /a/b/new', 'denied, permission', { makes: true }],
      ['bob write /a/new/file', 'denied, permission', { makes: true }],
      ['bob write /d/new/file', 'allowed', { makes: true }],
      ['bob remove /d/file', 'denied, permission'],
    ],
  },
  {
    sentence: '5. `write_users`',
    rules: [{ path: '/a', writeUsers: [ids.bob], writeUsersSub: true }],
    grants: ['ann /a +write'],
    asks: [
      ['ann write /a/file', 'denied, writeUsers'],
      ['ann remove /a/b/c', 'denied, writeUsers'],
      ['ann copy /d/file /a/copy', 'denied, writeUsers'],
      ['ann copy /a/file /d/copy', 'allowed'],
      ['ann read /a/file', 'allowed'],
      ['bob write /a/file', 'denied, permission'],
    ],
  },
  {
    sentence: 'no grant opens what a folder rule closes; no rule opens what a grant closes',
    grants: ['ann /a +all', 'ann /d -write'],
    rules: [
      { path: '/a', hide: ['^b$'] },
      { path: '/a/b/c', password: 'p' },
      { path: '/d', write: true, writeSub: true },
    ],
    asks: [
      ['ann see /a/b', 'hidden, hidden'],
      ['ann write /d/file', 'denied, grant'],
    ],
  },
  {
    sentence: 'the deciding grant is at the longest path',
    grants: ['ann /a -write', 'staff /a/b +write', 'ann /a/b/c -write'],
    asks: [
      ['ann write /a/file', 'denied, grant'],
      ['ann write /a/b/new', 'allowed'],
      ['ann write /a/b/c/deep', 'denied, grant'],
    ],
  },
  {
    sentence: 'a grant that does not mention the right does not decide',
    grants: ['ann /a -write', 'ann /a/b +read'],
    asks: [
      ['ann write /a/b/new', 'denied, grant'],
      ['ann read /a/b', 'allowed'],
    ],
  },
  {
    sentence: "there the user's own grants decide before those of groups",
    grants: ['ann /a +write', 'staff /a -write', 'gil /a +see -write', 'staff /d +write', 'gil /d -write +read'],
    asks: [
      ['ann write /a/file', 'allowed'],
      ['gil write /a/file', 'denied, grant'],
      ['gil write /d/file', 'denied, grant'],
    ],
  },
  {
    sentence: 'among groups a denial wins',
    grants: ['staff /a +write', 'crew /a -write', 'staff /d +write'],
    asks: [
      ['ann write /a/file', 'denied, grant'],
      ['ann write /d/file', 'allowed'],
    ],
  },
  {
    sentence: 'a user who is granted only is refused where no grant mentions the right, whatever it is',
    grants: ['gil /a +read'],
    rules: [{ path: '/a', write: true, writeSub: true }],
    users: [user('gil', { grantedOnly: true, permissions: [...changing, 'webdavRead', 'webdavManage'] })],
    asks: [
      ['gil write /a/file', 'denied, grantedOnly'],
      ['gil remove /a/file', 'denied, grantedOnly'],
      ['gil see /d', 'not_found, notSeen'],
      ['gil read /a/file', 'allowed', { protocol: 'webdav' }],
      ['gil read /a/file', 'denied, protocol', { protocol: 'sftp' }],
    ],
  },
  {
    sentence: 'every right needs `see`',
    grants: ['ann /a +all', 'ann /a/b -see'],
    asks: [
      ['ann read /a/b', 'not_found, notSeen'],
      ['ann share /a/b', 'not_found, notSeen'],
      ['ann copy /a/b/c /d/c', 'not_found, notSeen'],
    ],
  },
  {
    sentence: 'no grant applies to admins by role or group; permission bits and folder rules do',
    grants: ['admin / -see', 'staff / -see', 'bob /a -read'],
    groups: [group('staff', ['admin', 'gil']), group('chiefs', ['bob', 'gil'], { admin: true })],
    rules: [{ path: '/d', password: 'p' }],
    asks: [
      ['admin read /a/file', 'allowed'],
      ['bob read /a/file', 'allowed'],
      ['bob write /a/file', 'denied, permission'],
      ['gil read /a/file', 'allowed'],
      ['admin read /d/file', 'password_required, password'],
    ],
  },
  {
    sentence: 'the folder of a grant itself is renamed, moved or removed only with that right from above it',
    grants: [
      'gil /sales +remove +rename +move',
      'bob /a/b +remove',
      'bob /a +see',
      'gil /d +remove',
      'gil / +remove -read',
    ],
    asks: [
      ['gil remove /sales/june', 'allowed'],
      ['gil remove /sales', 'allowed'],
      ['gil rename /sales /sold', 'denied, folderOfGrant'],
      ['gil move /sales /d/sales', 'denied, folderOfGrant'],
      ['bob remove /a/b', 'denied, folderOfGrant'],
      ['bob remove /a/b/c', 'allowed'],
    ],
  },
  {
    sentence: 'a grant of `remove` on /sales empties /sales and does not delete it',
    grants: ['gil /sales +remove'],
    asks: [
      ['gil remove /sales/june', 'allowed'],
      ['gil remove /sales', 'denied, folderOfGrant'],
    ],
  },
  {
    sentence: '`write` asks the entry; a handle that also reads asks `read`',
    grants: ['ann /a -read', 'gil /d/file +write'],
    asks: [
      ['ann write /a/file', 'allowed'],
      ['ann write /a/file', 'denied, grant', { reads: true }],
      ['gil write /d/file', 'allowed'],
      ['gil write /d/new', 'parent_missing, notSeen', { makes: true }],
    ],
  },
  {
    sentence: '`write` is asked for offline downloads, for which their own permission counts as the one to write',
    users: [user('bob', { permissions: ['offlineDownload'] }), user('carl', { permissions: ['offlineDownload'] })],
    grants: ['bob /a -write', 'ann /a +write'],
    asks: [
      ['bob write /d/new', 'allowed', { offlineDownload: true, makes: true }],
      ['bob write /d/new', 'denied, permission', { makes: true }],
      ['bob write /a/new', 'denied, grant', { offlineDownload: true, makes: true }],
      ['ann write /a/new', 'denied, function', { offlineDownload: true, makes: true }],
    ],
  },
  {
    sentence: '`rename` asks the old and the new path',
    grants: ['ann /a/file -rename', 'ann /d/taken -rename', 'gil /d +rename'],
    asks: [
      ['ann rename /a/file /a/other', 'denied, grant'],
      ['ann rename /d/file /d/taken', 'denied, grant'],
      ['ann rename /d/file /d/other', 'allowed'],
      ['gil rename /d/file /d/other', 'allowed'],
    ],
  },
  {
    sentence: '`move` asks `move` at the source, and `rename` too if the name changes',
    users: [user('bob', { permissions: ['move'] })],
    grants: ['ann /a -rename', 'ann /d/file -move'],
    asks: [
      ['ann move /a/file /d/other', 'denied, grant'],
      ['ann move /a/file /d/file2', 'denied, grant'],
      ['ann move /a/file /home/file', 'allowed'],
      ['ann move /d/file /a/file', 'denied, grant'],
      ['bob move /a/file /d/file', 'allowed'],
      ['bob move /a/file /d/other', 'denied, permission'],
    ],
  },
  {
    sentence: '`move` asks `remove` too at the source if a grant mentions it there',
    users: [user('bob', { permissions: ['move'] })],
    grants: ['ann /a -remove', 'bob /a +remove', 'bob /a/b -remove'],
    asks: [
      ['ann move /a/file /d/file2', 'denied, grant'],
      ['bob move /a/file /d/file', 'allowed'],
      ['bob move /a/b /d/b', 'denied, grant'],
      ['bob move /d/file /home/file', 'allowed'],
    ],
  },
  {
    sentence: 'a move sheds no denial: it asks `read` where the caller could read at the target',
    grants: ['ann /a -read', 'ann /home/x -read'],
    asks: [
      ['ann move /a/file /d/file', 'denied, grant'],
      ['ann move /a/file /home/x/file', 'allowed'],
      ['ann move /d/file /a/new', 'denied, permission'],
    ],
    users: [user('ann', { permissions: ['move', 'write', 'copy'] })],
  },
  {
    sentence: '`copy` asks `copy` and `read` at the source',
    grants: ['ann /a/file -read', 'ann /d -copy'],
    asks: [
      ['ann copy /a/file /home/file', 'denied, grant'],
      ['ann copy /d/file /home/file', 'denied, grant'],
      ['ann copy /a/b /home/b', 'allowed'],
    ],
  },
  {
    sentence:
      'of targets of moves and copies `write` is asked if a grant mentions it there or the caller is granted only',
    users: [user('bob', { permissions: ['move', 'copy'] })],
    grants: ['bob /a -write', 'gil /a +copy +read', 'gil /d +write', 'gil /home +see'],
    asks: [
      ['bob copy /d/file /home/file', 'allowed'],
      ['bob move /d/file /home/file', 'allowed'],
      ['bob copy /d/file /a/new', 'denied, grant'],
      ['bob move /d/file /a/new', 'denied, permission'],
      ['bob move /d/file /a/file', 'denied, grant'],
      ['gil copy /a/file /d/new', 'allowed'],
      ['gil copy /a/file /home/new', 'denied, grantedOnly'],
    ],
  },
  {
    sentence: '`remove` and `share` ask the entry',
    grants: ['ann /a/file -share', 'ann /d/file -remove'],
    asks: [
      ['ann share /a/file', 'denied, grant'],
      ['ann share /a', 'allowed'],
      ['ann remove /d/file', 'denied, grant'],
    ],
  },
  {
    sentence: 'a change of a whole tree is refused if a grant of the caller below denies that right or `see`',
    grants: ['ann /a/b/c -remove', 'ann /d/none -see', 'staff /home/x -rename -move'],
    asks: [
      ['ann remove /a', 'denied, wholeTree'],
      ['ann remove /a/b', 'denied, wholeTree'],
      ['ann rename /a /a2', 'allowed'],
      ['ann remove /d', 'denied, wholeTree'],
      ['ann move /d /home/d', 'denied, wholeTree'],
      ['ann rename /d /e', 'denied, wholeTree'],
      ['ann rename /home /house', 'denied, wholeTree'],
      ['ann write /d', 'denied, wholeTree', { wholeTree: true }],
      ['ann write /d', 'allowed'],
      ['ann write /a', 'allowed', { wholeTree: true }],
      ['ann remove /d/file', 'allowed'],
      ['bob remove /a', 'denied, permission'],
    ],
  },
  {
    sentence: 'a change of a whole tree is refused if a grant denies where it lands',
    grants: ['ann /home/b/c -see'],
    asks: [
      ['ann move /a/b /home/b', 'denied, wholeTree'],
      ['ann move /a/b /home/other', 'allowed'],
      ['ann move /a/file /home/b', 'allowed'],
    ],
  },
  {
    sentence: 'the replacement of a folder by a move or copy is refused if a grant below it denies `remove` or `see`',
    grants: ['ann /a/b/c -remove', 'ann /home/x/y -see', 'ann /home/new/z -remove'],
    asks: [
      ['ann copy /d /a/b', 'denied, wholeTree', { replaces: true }],
      ['ann move /d/file /a/b', 'denied, wholeTree', { replaces: true }],
      ['ann copy /d /a/b', 'allowed'],
      ['ann copy /d /home/x', 'denied, wholeTree', { replaces: true }],
      ['ann copy /d /home/new', 'allowed', { replaces: true }],
    ],
  },
  {
    sentence: 'a copy or a zip leaves out, silently, what the caller does not see',
    grants: ['ann /a/b -see'],
    rules: [{ path: '/d', hide: ['file'] }],
    asks: [
      ['ann copy /a /home/a', 'allowed'],
      ['ann read /a', 'allowed', { wholeTree: true }],
      ['ann copy /d /home/d', 'allowed'],
    ],
  },
  {
    sentence:
      'a copy or a zip is refused if it would hold what the caller sees and may not read, or for a copy not copy',
    grants: ['ann /a/b/c/deep -read', 'ann /d/file -copy', 'ann /sales/none -read'],
    rules: [{ path: '/home/x', password: 'p' }],
    asks: [
      ['ann copy /a /home/a', 'denied, unreadableMember'],
      ['ann read /a', 'denied, unreadableMember', { wholeTree: true }],
      ['ann read /a', 'allowed'],
      ['ann copy /d /home/d', 'denied, unreadableMember'],
      ['ann read /d', 'allowed', { wholeTree: true }],
      ['ann copy /sales /home/sales', 'denied, unreadableMember'],
      ['ann read /sales', 'allowed', { wholeTree: true }],
      ['ann copy /home /a/home', 'password_required, ruleBelow'],
      ['ann copy /home /a/home', 'allowed', { password: 'p' }],
    ],
  },
  {
    sentence: 'the way to a grant is seen, and cannot be read or changed otherwise',
    grants: ['gil /a/b/c +all', 'ann /a -see', 'ann /a/b/c +read'],
    asks: [
      ['gil see /', 'allowed'],
      ['gil see /a', 'allowed'],
      ['gil see /a/b', 'allowed'],
      ['gil read /a/b', 'denied, way'],
      ['gil remove /a/b', 'denied, way'],
      ['gil write /a/b', 'denied, way'],
      ['gil see /a/file', 'not_found, notSeen'],
      ['gil see /d', 'not_found, notSeen'],
      ['ann see /a', 'allowed'],
      ['ann read /a', 'denied, way'],
      ['ann write /a', 'denied, way'],
      ['ann copy /d /a/b', 'denied, way'],
      ['ann see /a/file', 'not_found, notSeen'],
      ['ann read /a/b/c/deep', 'allowed'],
      ['ann read /d/file', 'allowed'],
    ],
  },
  {
    sentence: 'a user who is granted only and has no grant sees an empty root',
    asks: [
      ['gil see /', 'allowed'],
      ['gil read /', 'denied, way'],
      ['gil see /a', 'not_found, notSeen'],
    ],
  },
  {
    sentence: 'the base folder is the `/` of the user; grants outside it have no effect',
    grants: ['carl /a +all', 'staff /a +all'],
    users: [user('gil', { grantedOnly: true, base: asPath('/home') })],
    asks: [
      ['carl read /home/x', 'allowed'],
      ['carl read /a/file', 'not_found, base'],
      ['carl copy /home/x /a/x', 'not_found, base'],
      ['gil see /home', 'allowed'],
      ['gil see /home/x', 'not_found, notSeen'],
    ],
  },
  {
    sentence: "the target's path of a symlink is asked too",
    grants: ['ann /a -read'],
    symlinks: [
      ['/d/link', '/a'],
      ['/home/out', '/d'],
    ],
    asks: [
      ['ann read /d/link/file', 'denied, grant'],
      ['ann write /d/link/file', 'allowed'],
      ['ann move /d/link/file /d/file2', 'denied, grant'],
      ['ann remove /d/link', 'allowed'],
      ['carl read /home/out/file', 'denied, base'],
    ],
  },
  {
    sentence: 'later: networks are asked at the request, and not of a task',
    users: [user('ann', { allowFrom: ['home'] })],
    asks: [
      ['ann read /a/file', 'unauthenticated, credential', { network: 'office' }],
      ['ann read /a/file', 'unauthenticated, credential'],
      ['ann read /a/file', 'allowed', { network: 'home' }],
    ],
  },
  {
    sentence: 'guests may have groups and grants',
    groups: [group('staff', ['guest'])],
    grants: ['staff /a -see', 'guest /d +write'],
    asks: [
      ['guest see /a', 'not_found, notSeen'],
      ['guest write /d/file', 'allowed'],
    ],
  },
  {
    sentence: 'a move sheds no denial below its target, nor does a rename',
    grants: ['ann /a -read', 'ann /home/b/c +read', 'ann /home/b -read', 'ann /a/other +read', 'ann /d/new/x -write'],
    asks: [
      ['ann move /a/b /home/b', 'denied, grant'],
      ['ann rename /a/file /a/other', 'denied, grant'],
      ['ann rename /a/file /a/third', 'allowed'],
      ['ann move /home/x /d/new', 'denied, wholeTree'],
    ],
  },
  {
    sentence: 'of two paths the first is asked first, but a move asks before all else whether both are seen',
    grants: ['ann /a -move -copy', 'ann /d/b -see'],
    asks: [
      ['ann move /a/file /d/b/x', 'parent_missing, notSeen'],
      ['ann copy /a/file /d/b/x', 'denied, grant'],
      ['ann move /a/file /d/b/x', 'unauthenticated, credential', { revoked: true }],
    ],
  },
  {
    sentence: 'as today: on a change the rule of the parent folder decides, on a look that of the path itself',
    rules: [
      { path: '/a', password: 'p' },
      { path: '/a/b', readUsers: [ids.ann] },
    ],
    asks: [
      ['bob see /a/b', 'hidden, readUsers'],
      ['ann see /a/b', 'allowed'],
      ['ann rename /a/b /a/b2', 'password_required, password'],
      ['bob rename /a/b /a/b2', 'denied, permission', { password: 'p' }],
      ['ann read /a', 'password_required, password'],
      ['ann rename /a /a2', 'password_required, ruleBelow'],
    ],
  },
  {
    sentence: 'as today: what is replaced is removed if it is a folder, and written if it is a file',
    users: [user('ann', { permissions: ['copy', 'move'] }), user('bob', { permissions: ['copy', 'write'] })],
    asks: [
      ['ann copy /d /home/x', 'denied, permission', { replaces: true }],
      ['ann copy /d/file /a/file', 'denied, permission', { replaces: true }],
      ['bob copy /d/file /a/file', 'allowed', { replaces: true }],
      ['bob copy /d/file /home/x', 'denied, permission', { replaces: true }],
    ],
  },
  {
    sentence: 'as today: nobody removes, replaces or moves a folder with entries that a folder rule closes',
    rules: [
      { path: '/a', hide: ['^deep$'], hideSub: true },
      { path: '/d', hide: ['file'] },
    ],
    asks: [
      ['ann remove /a', 'denied, ruleBelow'],
      ['ann move /a/b /home/b', 'denied, ruleBelow'],
      ['ann move /a/b /a/b2', 'allowed'],
      ['ann move /d /home/d', 'allowed'],
      ['ann copy /home/x /d', 'denied, ruleBelow', { replaces: true }],
      ['ann remove /home', 'allowed'],
    ],
  },
]

for (const { sentence, asks, ...fields } of examples) {
  void t.test(sentence, async (t) => {
    const world = worldOf(fields)
    for (const [text, answer, options] of asks) {
      t.equal(answerOf(decide(world, questionOf(text, options))), answer, `${text} ${JSON.stringify(options ?? {})}`)
    }
  })
}

function userIn(world: World, name: Name): User {
  const found = world.users.find(({ id }) => id === ids[name])
  if (!found) throw new Error(`no user ${name}`)
  return found
}

const path = (text: string): Path => asPath(text)

void t.test('a task, which has no network, is not refused by the networks of its user', async (t) => {
  const world = worldOf({ users: [user('ann', { allowFrom: ['home'] })] })
  const { network: _, ...task } = questionOf('ann read /a/file')
  t.equal(answerOf(decide(world, task)), 'allowed')
})

void t.test('a listing shows what is seen: of a way only ways and grants, and a folder with a password', async (t) => {
  const world = worldOf({
    grants: ['gil /a/b/c +read', 'ann /a/b -see', 'gil /home +see', 'gil /home/x -see'],
    rules: [
      { path: '/', hide: ['^sales$'] },
      { path: '/d', password: 'p', readUsers: [ids.ann] },
    ],
  })
  const list = (name: Name, folder: string, names: readonly string[]) =>
    visible(world, userIn(world, name), path(folder), names)
  const inRoot = ['a', 'sales', 'd', 'home', 'none']
  t.same(list('gil', '/', inRoot), ['a', 'home'])
  t.same(list('gil', '/a', ['b', 'file']), ['b'])
  t.same(list('gil', '/home', ['x', 'y']), ['y'])
  t.same(list('ann', '/', inRoot), ['a', 'd', 'home', 'none'])
  t.same(list('ann', '/a', ['b', 'file']), ['file'])
  t.same(list('bob', '/', inRoot), ['a', 'home', 'none'])
})

void t.test('a way leads to a path at which the deciding grant allows `see`', async (t) => {
  const world = worldOf({ grants: ['staff /a/b +read', 'gil /a/b -see', 'staff /d/x +read', 'ann /home -read'] })
  t.equal(wayTo(world, userIn(world, 'gil'), path('/a')), false)
  t.equal(wayTo(world, userIn(world, 'gil'), path('/d')), true)
  t.equal(wayTo(world, userIn(world, 'gil'), path('/d/x')), false, 'it is seen itself')
  t.equal(wayTo(world, userIn(world, 'ann'), path('/d')), false, 'it is seen itself')
})

void t.test('the refusal of a whole tree names the grant, whether or not anything exists there', async (t) => {
  const world = worldOf({ grants: ['ann /nowhere/x -remove', 'staff /d/x -remove', 'ann /d/x +remove'] })
  const refuses = (right: Right, at: string) => refusesWholeTree(world, userIn(world, 'ann'), right, path(at))?.id
  t.equal(refuses('remove', '/'), 1)
  t.equal(refuses('remove', '/nowhere'), 1)
  t.equal(refuses('remove', '/nowhere/x'), undefined, 'a grant at the path is not below it')
  t.equal(refuses('move', '/nowhere'), undefined)
  t.equal(refuses('remove', '/d'), undefined, "the user's own grant decides")
})

void t.test('a link to a path at or below a denial of `see` or `read`, of anyone, needs a signature', async (t) => {
  const world = worldOf({
    grants: ['bob /a/b -read', 'staff /sales -see', 'ann /d -write'],
    rules: [{ path: '/home', password: 'p' }],
  })
  const signed = ['/a/b', '/a/b/c/deep', '/sales/june', '/home/file']
  for (const each of signed) t.equal(needsSignature(world, path(each)), true, each)
  for (const each of ['/a', '/a/file', '/d/file', '/home/x/file'])
    t.equal(needsSignature(world, path(each)), false, each)
})

void t.test('each step decides at least 1 % of the generated questions, and each error is given', async (t) => {
  const counts = new Map<string, number>()
  const count = (key: string) => counts.set(key, (counts.get(key) ?? 0) + 1)
  const worlds = 200
  const questions = 40
  for (let seed = 0; seed < worlds; seed++) {
    const world = generateWorld(seed)
    const random = new Random(seed)
    for (let number = 0; number < questions; number++) {
      const question = generateQuestion(world, random)
      const { allowed, error, decidedBy } = decide(world, question)
      count(`${allowed ? 'allowed by' : 'refused by'} ${decidedBy.step}`)
      count(error ?? 'no error')
      count(`${question.action} is ${allowed ? 'allowed' : 'refused'}`)
    }
  }
  // Those of visitors are in a test of their own.
  const steps = Object.keys(kinds).filter((step) => step !== 'share')
  const allowing: readonly Step[] = ['signed', 'grant', 'permission', 'ruleWithWrite', 'way']
  const refusing = steps.filter((step) => step !== 'ruleWithWrite')
  for (const key of [
    ...allowing.map((step) => `allowed by ${step}`),
    ...refusing.map((step) => `refused by ${step}`),
    ...['no error', 'denied', 'not_found', 'hidden', 'password_required', 'unauthenticated', 'parent_missing'],
    ...rights.flatMap((right) => [`${right} is allowed`, `${right} is refused`]),
  ]) {
    const percent = ((counts.get(key) ?? 0) * 100) / (worlds * questions)
    t.ok(percent >= 1, `${key}: ${percent.toFixed(2)} %`)
  }
})

void t.test('a seed repeats its world and its questions', async (t) => {
  t.same(generateWorld(7), generateWorld(7))
  t.notSame(generateWorld(7), generateWorld(8))
  const world = generateWorld(7)
  t.same(generateQuestion(world, new Random(1)), generateQuestion(world, new Random(1)))
})
