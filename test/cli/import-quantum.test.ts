/** `tidegate import quantum`, with databases that have the tables of File Browser Quantum 2. */
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { isGatewayError } from '../../src/base/errors.js'
import { connectSqlite } from '../../src/database/sqlite.js'
import { fromQuantum, readQuantumDatabase, type SourceDefaults } from '../../src/installation/import/quantum.js'
import { Report, type ReportLine } from '../../src/installation/import/report.js'
import { startGateway } from '../gateway.js'
import { withoutSqlite } from '../store-location.js'
import { folder, names, run, signIn } from './importing.js'

/** The hashes of `Admin fb 1` and `greta-1234`. */
const hashes = {
  admin: '$2a$10$aLdU76aSo0LU/SbppCF0leLnfzIK2gRc8ne6eUaG46mSO3HtxRSTO',
  ann: '$2a$10$RgyRpsSksxDTmWjg.YS9gurU2d0w7JgRyXBWQV.41pmIuahpNMynW',
}

interface Rows {
  readonly users?: readonly (readonly [username: string, isAdmin: boolean, data: object | string])[]
  readonly groups?: readonly (readonly [name: string, members: unknown])[]
  readonly rules?: readonly (readonly [source: string, path: string, rule: object | string])[]
  /** `user`: the position of their creator in `users`. */
  readonly shares?: readonly { readonly user: number; readonly hash: string; readonly [column: string]: unknown }[]
  readonly methods?: readonly string[]
}

const textOf = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value))

/** Ids are too long for a number. */
const userIdOf = (index: number) => String(9_223_372_036_854_775_000n + BigInt(index))

/** Makes a database with these rows, and resolves to its path. */
async function database(t: Test, { users = [], groups = [], rules = [], shares = [], methods = [] }: Rows) {
  const file = join(await folder(t), 'filebrowser.sqlite')
  const connection = connectSqlite(file)
  try {
    for (const statement of [
      'create table users (user_id text primary key not null, username text not null unique, perm_api integer not null ' +
        'default 0, perm_admin integer not null default 0, perm_realtime integer not null default 0, user_data text not null)',
      'create table groups (id integer primary key autoincrement, name text unique not null, members text not null)',
      'create table access_rules (id integer primary key autoincrement, source text not null, path text not null, ' +
        'rule_data text not null, unique (source, path))',
      'create table shares (hash text primary key, user_id text not null, source text not null, path text not null, ' +
        'expire integer not null default 0, downloads integer not null default 0, password_hash text, token text, ' +
        'user_downloads text, share_settings text, version integer)',
      'create table auth_methods (type text primary key, config text not null)',
    ]) {
      await connection.raw(statement)
    }
    for (const [index, [username, isAdmin, data]] of users.entries()) {
      const row = {
        user_id: userIdOf(index),
        username,
        perm_admin: isAdmin ? 1 : 0,
        user_data: Buffer.from(textOf(data)),
      }
      await connection('users').insert(row)
    }
    for (const [name, members] of groups) await connection('groups').insert({ name, members: textOf(members) })
    for (const [source, path, rule] of rules) {
      await connection('access_rules').insert({ source, path, rule_data: textOf(rule) })
    }
    for (const { user, ...share } of shares) {
      await connection('shares').insert({ source: '/srv/docs', path: '/', ...share, user_id: userIdOf(user) })
    }
    for (const type of methods) await connection('auth_methods').insert({ type, config: '{}' })
  } finally {
    await connection.destroy()
  }
  return file
}

const none = { view: false, download: false, modify: false, delete: false, create: false, configured: true }
const reads = { ...none, view: true, download: true }
const all = { ...reads, modify: true, delete: true, create: true }

/** The data of a user with these scopes. */
function person(...scopes: readonly (readonly [source: string, scope: string, permissions?: object])[]) {
  return {
    ...{ password: hashes.ann, loginMethod: 'password', otpEnabled: false },
    permissions: { api: false, admin: false, share: false, realtime: false },
    backendScopes: scopes.map(([path, scope, permissions = all]) => ({ path, scope, permissions })),
  }
}

const admin = ['root', true, { ...person(['/srv/docs', '/']), password: hashes.admin }] as const

/** The sources of these users. */
function sourcesOf(users: Rows['users'] = []): readonly string[] {
  const scopes = users.map(([, , data]) => (data as { backendScopes?: readonly { path: string }[] }).backendScopes)
  return scopes.flatMap((each) => each ?? []).map(({ path }) => path)
}

/** By default nothing is denied in the sources but by rules. */
async function mapped(
  t: Test,
  rows: Rows,
  defaults: Partial<SourceDefaults> = { allowed: sourcesOf([admin, ...(rows.users ?? [])]) },
) {
  const report = new Report()
  const read = await readQuantumDatabase(await database(t, { ...rows, users: [admin, ...(rows.users ?? [])] }))
  const installation = await fromQuantum(read, { denied: [], allowed: [], ...defaults }, report)
  return { ...installation, lines: report.lines }
}

function linesOf(lines: readonly ReportLine[], ...kinds: readonly string[]) {
  return lines
    .filter(({ kind }) => kinds.includes(kind))
    .map(({ name, outcome, reason }) => `${name}: ${reason || outcome}`)
}

void t.test('users see their scopes, and no more than the rules let them', { skip: withoutSqlite }, async (t) => {
  const disk = await folder(t)
  for (const path of ['docs/team/secret', 'docs/open', 'photos/2024/private', 'photos/2023']) {
    await mkdir(join(disk, path), { recursive: true })
  }
  for (const path of ['docs/team/a.txt', 'photos/2024/b.jpg']) await writeFile(join(disk, path), 'x')
  const [docs, photos] = [join(disk, 'docs'), join(disk, 'photos')]
  const file = await database(t, {
    users: [
      ['admin', true, { ...person([docs, '/'], [photos, '/']), password: hashes.admin }],
      ['ann', false, person([docs, '/'], [photos, '/2024', reads])],
      ['bob', false, { ...person([docs, '/team']), otpEnabled: true, totpSecret: 'c2VjcmV0', totpNonce: 'bm9uY2U=' }],
    ],
    groups: [['team', ['ann', 'gone']]],
    rules: [
      [docs, '/team/secret/', { denyAll: true, deny: { users: [], groups: [] }, allow: { users: [], groups: [] } }],
      [photos, '/2024/private/', { Deny: { Users: {}, Groups: { team: {} } }, Allow: { Users: {}, Groups: {} } }],
    ],
    shares: [{ user: 1, hash: 'abc', source: docs, path: '/open/' }],
    methods: ['password', 'oidc'],
  })
  const before = await readdir(join(file, '..'))
  const data = join(await folder(t), 'data')
  const dry = await run('quantum', file, '--data', data, '--dry-run')
  t.match(dry, { status: 1, err: '', out: /this is a dry run/ })
  const { status, out } = await run('quantum', file, '--data', data, '--allow-by-default', docs, photos, '--json')
  const { items, notes } = JSON.parse(out) as { items: readonly ReportLine[]; notes: readonly string[] }
  t.equal(status, 1, 'a way to sign in is left out')
  t.same(
    items.map(({ kind, name, outcome, reason }) => `${kind} ${name}: ${reason || outcome}`),
    [
      'user admin: it sees everything: grants do not apply to the administrator',
      'user ann: taken',
      'grant ann: /docs: taken',
      'grant ann: /docs/team/secret: taken',
      'grant ann: /photos/2024: taken',
      'grant ann: /photos/2024/private: taken',
      'user bob: disabled: its two-step secret cannot be read',
      'grant bob: /docs/team: taken',
      'grant bob: /docs/team/secret: taken',
      'group team: what the rules for it allow and deny is granted to each member',
      'share abc: /open/: its creator may not share anything, so that nobody can open it',
      'sign-in oidc: users sign in with their passwords here',
      'storage /docs: taken',
      'storage /photos: taken',
    ],
  )
  t.match(notes.join(' '), /sign in with their passwords once.*denyByDefault/)
  t.same(await readdir(join(file, '..')), before, 'nothing is made beside the database')

  const gateway = await startGateway(t, { dataFolder: data, store: join(data, 'data.db') })
  const token = await signIn(gateway, { username: 'ann', password: 'greta-1234' })
  t.same(await names(gateway, token, '/'), ['docs', 'photos'])
  t.same(await names(gateway, token, '/docs'), ['open', 'team'])
  t.same(await names(gateway, token, '/docs/team'), ['a.txt'])
  t.same(await names(gateway, token, '/photos'), ['2024'])
  t.same(await names(gateway, token, '/photos/2024'), ['b.jpg'])
  const nothing = await names(gateway, token, '/nowhere')
  for (const path of ['/docs/team/secret', '/photos/2023', '/photos/2024/private']) {
    t.equal(await names(gateway, token, path), nothing, path)
  }
  const { accounts } = gateway.gateway
  t.match(accounts.groups.byName('team'), { members: [accounts.users.byName('ann')?.id], permission: 0, admin: false })
  const adminToken = await signIn(gateway, { username: 'admin', password: 'Admin fb 1' })
  t.same(await names(gateway, adminToken, '/docs/team'), ['a.txt', 'secret'])
  t.type(await signIn(gateway, { username: 'bob', password: 'greta-1234' }), 'number', 'bob is disabled')
})

void t.test('permissions of scopes are rights', async (t) => {
  const { users, storages, lines } = await mapped(t, {
    users: [
      ['ann', false, { ...person(['/srv/docs', '/a', all]), permissions: { share: true } }],
      ['bob', false, person(['/srv/docs', '/', reads], ['/mnt/docs', '/x/'])],
      ['cy', false, person(['/srv/docs', '/', { ...all, delete: false, download: false }])],
      ['di', false, person(['/srv/docs', '/', { ...all, modify: false }], ['/', '/', none])],
      ['ed', false, person(['/srv/docs', '/'], ['/srv/docs', '/b'])],
      ['flo', false, { ...person(['/srv/docs', '/']), lockPassword: true, tokens: { t: {} } }],
      ['gil', false, person(['docs', '/'])],
    ],
  })
  t.same(
    users.slice(1).map(({ grants }) => grants.map(({ path, allow }) => `${path}: ${allow.join(' ')}`)),
    [
      ['/docs/a: see read write rename move copy remove share'],
      ['/docs: see read', '/docs-2/x: see read write rename move copy remove'],
      ['/docs: see write rename copy'],
      ['/docs: see read remove'],
      ['/docs: see read write rename move copy remove'],
      ['/docs: see read write rename move copy remove'],
      ['/docs-3: see read write rename move copy remove'],
    ],
  )
  t.match(
    users,
    ['root', 'ann', 'bob', 'cy', 'di', 'ed', 'flo', 'gil'].map((username) => ({
      ...{ username, basePath: '/', disabled: false, otpSecret: '' },
      grantedOnly: username !== 'root',
    })),
  )
  t.same(
    storages.map(({ mountPath, addition, disabled }) => `${mountPath} ${addition} ${String(disabled)}`),
    [
      '/docs {"root_folder_path":"/srv/docs"} false',
      '/docs-2 {"root_folder_path":"/mnt/docs"} false',
      '/files {"root_folder_path":"/"} false',
      '/docs-3 {"root_folder_path":"docs"} true',
    ],
  )
  t.same(linesOf(lines, 'user').slice(1), [
    'ann: taken',
    'bob: taken',
    'cy: it may not look at files, because that is to read them, in the source /srv/docs',
    'di: it may not write: it could replace files that it may not change, or make new ones, in the source /srv/docs; ' +
      'it sees nothing, because nothing says that it may, in the source /',
    'ed: taken',
    'flo: it may change its password',
    'gil: taken',
  ])
  t.same(linesOf(lines, 'tokens'), ['flo: tokens cannot be imported'])
})

void t.test('whoever cannot be expressed is disabled, and sees nothing', async (t) => {
  const empty = { users: [], groups: [] }
  const { users, groups, lines } = await mapped(t, {
    users: [
      ['ann', false, { ...person(['/srv/docs', '/']), loginMethod: 'oidc' }],
      ['bob', false, { ...person(), backendScopes: undefined, scopes: [{ name: '/srv/docs', scope: '/' }] }],
      ['cy', false, person(['/srv/docs', 'team'])],
      ['di', false, person(['/srv/docs', '/a/../..'])],
      ['ed', false, person(['/srv/docs', '/'], ['/srv/broken', '/'])],
      ['flo', false, person(['/srv/unknown', '/'])],
      ['gil', false, person(['/srv/groups', '/'])],
      ['hal', false, person(['/srv/twice', '/'])],
      ['ida', false, '{"password":'],
      ['jo', false, '['.repeat(200_000) + ']'.repeat(200_000)],
      [
        'kim',
        false,
        { ...person(['/srv/docs', '/']), otpEnabled: true, totpSecret: 'JGJKTGE5XVQ2ULZIODQTDNZTARN5OB5L' },
      ],
    ],
    groups: [
      ['torn', '["ann",'],
      ['fine', { ann: {} }],
    ],
    rules: [
      ['/srv/broken', '/a/', 'no JSON'],
      ['/srv/unknown', '/a/', { denyAll: true, expires: 5 }],
      ['/srv/groups', '/', { denyAll: false, deny: { ...empty, groups: ['torn'] } }],
      ['/srv/twice', '/a', { denyAll: true }],
      ['/srv/twice', '/a/', { denyAll: false }],
    ],
  })
  t.same(
    users.map(({ username, disabled, grants, otpSecret }) => [username, disabled, grants.length, otpSecret]),
    [
      ['root', false, 0, ''],
      ['ann', true, 1, ''],
      ...['bob', 'cy', 'di', 'ed', 'flo', 'gil', 'hal'].map((username) => [username, true, 0, '']),
      ['kim', false, 1, 'JGJKTGE5XVQ2ULZIODQTDNZTARN5OB5L'],
    ],
  )
  t.ok(users.slice(1).every(({ grantedOnly }) => grantedOnly))
  t.match(linesOf(lines, 'user').slice(1), [
    'ann: disabled: it has no password that can be taken: set one',
    'bob: disabled: an earlier version has stored its scopes: start and stop the newest version once',
    'cy: disabled: its scope is not a whole path, in the source /srv/docs',
    'di: disabled: its scope is not a whole path, in the source /srv/docs',
    'ed: disabled: the rule for /a/ is not JSON, in the source /srv/broken',
    /^flo: disabled: the rule for \/a\/ has another form: .*expires.*, in the source \/srv\/unknown$/,
    'gil: disabled: the members of the group torn cannot be read, in the source /srv/groups',
    'hal: disabled: a rule for /a/ is not one for a whole path of its own, in the source /srv/twice',
    'ida: its data is not JSON',
    /^jo: its data has another form/,
    'kim: taken',
  ])
  t.same(linesOf(lines, 'group'), [
    'fine: what the rules for it allow and deny is granted to each member',
    'torn: the members of the group torn cannot be read',
  ])
  t.match(groups, [{ name: 'fine', members: [2] }])
})

void t.test('a source is taken for one that denies by default, unless the opposite is stated', async (t) => {
  const rows: Rows = {
    users: [
      ['ann', false, person(['/srv/docs', '/'], ['/srv/free', '/'])],
      ['bob', false, person(['/srv/docs', '/'])],
    ],
    rules: [
      ['/srv/docs', '/ann/', { allow: { users: ['ann'], groups: [] } }],
      ['/srv/free', '/x/', { denyAll: true }],
    ],
  }
  const grantsOf = async (defaults: Partial<SourceDefaults>) => {
    const { users, lines } = await mapped(t, rows, defaults)
    const [, ann, bob] = users.map(({ grants }) =>
      grants.map(({ path, deny }) => (deny.length > 0 ? `not ${path}` : path)),
    )
    return { ann, bob, storages: linesOf(lines, 'storage') }
  }
  const closed = 'nobody sees there what no rule allows: say so if its denyByDefault is false'
  t.same(await grantsOf({}), {
    ann: ['/docs/ann'],
    bob: [],
    storages: [`/docs: ${closed}`, `/free: ${closed}`],
  })
  t.same(await grantsOf({ allowed: ['/srv/docs'], denied: ['/srv/free'] }), {
    ann: ['/docs'],
    bob: ['/docs'],
    storages: ['/docs: taken', '/free: taken'],
  })
  t.same(await grantsOf({ denied: ['/srv/docs'], allowed: ['/srv/docs', '/srv/free'] }), {
    ann: ['/docs/ann', '/free', 'not /free/x'],
    bob: [],
    storages: ['/docs: taken', '/free: taken'],
  })
  await t.rejects(grantsOf({ allowed: ['/srv/fre'] }), {
    code: 'invalid',
    reason: 'no user has the source /srv/fre; there are: /srv/docs, /srv/free',
  })
})

void t.test('shares keep their hashes, and open nothing that was closed', async (t) => {
  const ann = ['ann', false, { ...person(['/srv/docs', '/team']), permissions: { share: true } }] as const
  const settings = (fields: object) => ({ share_settings: Buffer.from(JSON.stringify(fields)) })
  const shared = (hash: string, fields: object = {}) => ({ user: 1, hash, path: `/team/${hash}/`, ...fields })
  const {
    shares,
    settings: values,
    lines,
  } = await mapped(t, {
    users: [ann],
    shares: [
      shared('all', { expire: 4_102_444_800, ...settings({ shareType: 'normal', title: 'Plans', sidebarLinks: [] }) }),
      shared('past', { expire: -5 }),
      shared('hashed', { password_hash: hashes.ann, token: 'x' }),
      shared('inbox', settings({ shareType: 'upload', allowCreate: true, disableDownload: true })),
      shared('both', settings({ allowCreate: true, allowModify: true, allowDelete: true, maxBandwidth: 5 })),
      shared('some', settings({ allowModify: true })),
      shared('few', { downloads: 3, ...settings({ downloadsLimit: 5 }) }),
      shared('own', settings({ allowedUsernames: ['bob'] })),
      shared('named', settings({ downloadsLimit: 1, perUserDownloadLimit: true })),
      shared('signed', settings({ disableAnonymous: true })),
      shared('looks', settings({ disableDownload: true })),
      shared('kinds', settings({ hideFileExt: '.key' })),
      shared('max', settings({ shareType: 'max' })),
      shared('odd', settings({ allowedUsernames: 'bob' })),
      shared('torn', { share_settings: '{' }),
      shared('when', { expire: 'tomorrow' }),
      shared('up', { path: '/../etc' }),
      shared('a b'),
      shared('far', { source: '/srv/other' }),
      { user: 9, hash: 'nobody', path: '/' },
      { user: 0, hash: 'root', path: '/' },
    ],
  })
  const byHash = new Map(shares.map((each) => [each.id, each]))
  t.match(byHash.get('all'), {
    ...{ creatorId: 2, mode: 'read', roots: ['/docs/team/all'], code: '', disabled: false, visits: 0, maxVisits: 0 },
    expires: new Date('2100-01-01'),
  })
  t.ok(Number(byHash.get('past')?.expires) < Date.now(), 'it has ended')
  t.match(byHash.get('hashed'), { disabled: true, code: /^[a-z0-9]{20}$/ })
  t.match(byHash.get('inbox'), { mode: 'upload', disabled: false })
  t.match(byHash.get('both'), { mode: 'both', disabled: false })
  t.match(byHash.get('some'), { mode: 'read', disabled: false })
  t.match(byHash.get('few'), { visits: 3, maxVisits: 5 })
  t.match(byHash.get('root'), { creatorId: 1, roots: ['/docs'] })
  for (const hash of ['own', 'named', 'signed', 'looks', 'kinds', 'max']) {
    t.match(byHash.get(hash), { mode: 'read', disabled: true, code: /^[a-z0-9]{20}$/ }, hash)
  }
  t.same([...values], [['filebrowser_share_links', 'true']])
  const forSome = 'only some users could open it there, and everybody can here'
  t.match(linesOf(lines, 'share'), [
    'a b: /team/a b/: share id can only contain letters, numbers, underscores, hyphens, and CJK characters',
    'all: /team/all/: taken',
    'both: /team/both/: visitors cannot remove anything; its bandwidth is not limited',
    'far: /team/far/: no user who is taken has its source',
    'few: /team/few/: its downloads are its visits',
    /^hashed: \/team\/hashed\/: disabled: only a hash of its code is stored there/,
    'inbox: /team/inbox/: taken',
    'kinds: /team/kinds/: disabled: it showed no files with some extensions',
    'looks: /team/looks/: disabled: nobody could download from it, and everybody can here',
    'max: /team/max/: disabled: its type max is not known',
    `named: /team/named/: disabled: ${forSome}; its downloads are its visits`,
    'nobody: /: its creator is not taken',
    /^odd: \/team\/odd\/: its settings have another form: allowedUsernames/,
    `own: /team/own/: disabled: ${forSome}`,
    'past: /team/past/: taken',
    'root: /: taken',
    `signed: /team/signed/: disabled: ${forSome}`,
    'some: /team/some/: visitors cannot add or replace files, because these are one right here',
    'torn: /team/torn/: its settings are not JSON',
    /^up: /,
    'when: /team/when/: its end is not a time',
  ])
})

void t.test('hostile databases are refused with one sentence', async (t) => {
  const refused = async (file: string, reason: RegExp) => {
    const error: unknown = await readQuantumDatabase(file).then(
      () => undefined,
      (failure: unknown) => failure,
    )
    t.ok(isGatewayError(error, 'invalid'), String(error))
    t.match(error, { reason })
    t.equal((error as { reason: string }).reason.includes('\n'), false)
  }
  const made = await folder(t)
  const file = join(made, 'a.db')
  await refused(file, /cannot be read/)
  await writeFile(file, 'a file of Bolt '.repeat(1000))
  await refused(file, /cannot be read as an SQLite database/)
  await rm(file)
  const connection = connectSqlite(file)
  await connection.raw('PRAGMA journal_mode = DELETE')
  await connection.schema.createTable('users', (columns) => void columns.text('username'))
  await connection.destroy()
  await refused(file, /no tables users, groups and access_rules/)
  await refused(
    await database(t, { users: [['x', false, ' '.repeat(2_000_000)]] }),
    /values of more than 1048576 bytes/,
  )

  const report = new Report()
  const nobody = await readQuantumDatabase(await database(t, {}))
  const stated = { denied: [], allowed: [] }
  await t.rejects(fromQuantum(nobody, stated, report), { code: 'invalid', reason: /no administrator/ })
  const many = Array.from({ length: 1001 }, (_, number) => [`/srv/${number}`, '/'] as const)
  const { users } = await mapped(
    t,
    {
      users: [
        ['ann', false, person(...many)],
        ['bob', false, person(...many.slice(0, 999))],
      ],
    },
    { allowed: many.slice(0, 999).map(([path]) => path) },
  )
  t.match(
    users.map(({ disabled, grants }) => [disabled, grants.length]),
    [
      [false, 0],
      [false, 999],
    ],
  )
})
