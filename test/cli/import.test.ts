/** `tidegate import …` with data of the other programs, and what their users then see. */
import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { appendFileSync, existsSync } from 'node:fs'
import { appendFile, cp, mkdir, readdir, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Client, type ConnectConfig } from 'ssh2'
import t from 'tap'
import { driverTypes } from '../../drivers/index.js'
import { isPassword, staticHash } from '../../src/accounts/passwords.js'
import { permissionBits } from '../../src/accounts/principal.js'
import { isGatewayError } from '../../src/base/errors.js'
import { fromAlist } from '../../src/installation/import/alist.js'
import { fromFileBrowser } from '../../src/installation/import/filebrowser.js'
import { coreSettings } from '../../src/settings/settings-table.js'
import { prepareImport } from '../../src/installation/import/importer.js'
import { Report, type ReportLine } from '../../src/installation/import/report.js'
import { withStillDatabase } from '../../src/installation/import/still-database.js'
import { readAlistDatabase, type AlistDatabase } from '../../src/database/alist-database.js'
import type { ForeignRow } from '../../src/database/foreign-sqlite.js'
import { connectSqlite } from '../../src/database/sqlite.js'
import { openStore } from '../../src/database/store.js'
import { startGateway, type RunningGateway } from '../gateway.js'
import { withoutSqlite } from '../store-location.js'
import { folder, names, run, signIn, type Sent } from './importing.js'

const fixture = (path: string) => fileURLToPath(new URL(`../../../test/fixtures/${path}`, import.meta.url))
const exports = [fixture('filebrowser/users.json'), fixture('filebrowser/config.json')] as const

async function dav({ davUrl }: RunningGateway, { username, password }: Sent, method: string, path: string) {
  const authorization = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`
  const response = await fetch(`${davUrl}${path}`, {
    method,
    headers: { authorization, ...(method === 'PROPFIND' && { depth: '1' }) },
    ...(method === 'PUT' && { body: 'x' }),
  })
  await response.arrayBuffer()
  return response.status
}

/** The names at `/` by SFTP. `answers`: to what the server asks for interactively, in its order. */
async function sftpNames(
  { sftpPort }: RunningGateway,
  config: ConnectConfig,
  answers?: readonly string[],
): Promise<readonly string[]> {
  const client = new Client()
  const left = [...(answers ?? [])]
  client.on('keyboard-interactive', (_name, _instructions, _language, prompts, finish) =>
    finish(prompts.map(() => left.shift() ?? '')),
  )
  try {
    client.connect({ host: '127.0.0.1', port: sftpPort, tryKeyboard: answers !== undefined, ...config })
    await once(client, 'ready')
    return await new Promise((resolve, reject) =>
      client.sftp((error, sftp) => {
        if (error) {
          reject(error)
          return
        }
        sftp.readdir('/', (failure, list) =>
          failure ? reject(failure) : resolve(list.map((each) => each.filename).sort()),
        )
      }),
    )
  } finally {
    client.end()
  }
}

/** RFC 6238. `steps`: of 30 seconds from now. Each code opens one session, and none before it. */
function codeOf(secret: string, steps = 0): string {
  const bits = Array.from(secret)
    .map((letter) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(letter).toString(2).padStart(5, '0'))
    .join('')
  const key = Buffer.from((bits.match(/.{8}/g) ?? []).map((byte) => parseInt(byte, 2)))
  const step = Buffer.alloc(8)
  step.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30_000) + steps))
  const digest = createHmac('sha1', key).update(step).digest()
  return String((digest.readUInt32BE((digest.at(-1) ?? 0) & 15) & 0x7fffffff) % 1_000_000).padStart(6, '0')
}

/** What each thing of the fixture must give: by kind and name, `taken` or the reason. */
const openListReport = {
  'user admin': 'taken',
  'user guest': 'taken',
  'user nora': 'taken',
  'user ole': 'taken',
  'user gone': 'taken',
  'SSH key nora: laptop': 'taken',
  'storage /files': 'taken',
  'storage /photos': 'taken',
  'storage /both': 'taken',
  'storage /lanzou': 'disabled: there is no driver Lanzou',
  'folder rule /files/team': 'taken',
  'folder rule /photos': 'taken',
  'setting site_title': 'taken',
  'setting token': 'taken',
  'SFTP host key ssh_host_rsa_key': 'taken',
}

const codeHashed =
  'disabled: only a hash of its code is stored there, so it has a new code: send that to its visitors, or set the old ' +
  'one, and enable it'

/** As `GET /api/shares` answers, and with what earlier versions add. */
const fileBrowserShares = [
  { hash: '5YdsHcNg', path: '/team/note.txt', userID: 1, expire: 0, hasPassword: false },
  { hash: 'Qx_-0a1B', path: '/team/', userID: 1, expire: 4_102_444_800, password_hash: '$2a$10$x', token: 'a-token' },
  { hash: 'gone1234', path: '/x', userID: 77, expire: 0 },
]

const fileBrowserReport = {
  'user admin': 'it sees everything: grants do not apply to the administrator',
  'share 5YdsHcNg: /team/note.txt': 'taken',
  'share Qx_-0a1B: /team/': codeHashed,
  'share gone1234: /x': 'its creator is not taken',
  'user greta': 'it may not write or rename: it could replace files, which it may not change',
  'grant greta: /team/trash': 'taken',
  'grant greta: /team/trash.txt': 'File Browser before 2026 applied the rule for /team/trash to it too',
  'user hugo': 'taken',
  'grant hugo: /trash': 'taken',
  'grant hugo: /private': 'taken',
  'grant hugo: /trash2': 'File Browser before 2026 applied the rule for /trash to it too',
  'grant hugo: /private-old': 'File Browser before 2026 applied the rule for /private to it too',
  'hidden names \\.key$': 'hidden from all who have such a rule, in every folder',
  'setting site_title': 'taken',
  'storage /': 'taken',
}

function compared(lines: readonly ReportLine[], expected: Readonly<Record<string, string>>) {
  const all = lines.map(({ kind, name, outcome, reason }) => [`${kind} ${name}`, reason || outcome] as const)
  return Object.fromEntries(all.filter(([key]) => key in expected))
}

void t.test(
  'OpenList: users, keys, storages, rules and settings are as they were',
  { skip: withoutSqlite },
  async (t) => {
    const data = join(await folder(t), 'data')
    const dry = await run('openlist', fixture('openlist'), '--data', data, '--dry-run')
    t.equal(existsSync(data), false, 'a dry run writes nothing')
    t.match(dry, {
      status: 0,
      err: '',
      out: /\/lanzou +changed +disabled: there is no driver Lanzou[^]*this is a dry run/,
    })

    const { status, out } = await run('openlist', fixture('openlist'), '--data', data, '--json')
    const { items } = JSON.parse(out) as { items: readonly ReportLine[] }
    t.same(compared(items, openListReport), openListReport)
    t.same(
      items.filter(({ outcome }) => outcome === 'left out'),
      [],
    )
    t.match(
      items.find(({ name }) => name === 'privacy_regs'),
      { outcome: 'changed', reason: /^those of here stay: / },
    )
    t.equal(status, 0)

    const again = await run('openlist', fixture('openlist'), '--data', data)
    t.match(again, { status: 1, out: '', err: /this installation has users, storages or rules of its own/ })

    const disk = await folder(t)
    await mkdir(join(disk, 'files', 'team'), { recursive: true })
    await mkdir(join(disk, 'photos', 'private'), { recursive: true })
    await writeFile(join(disk, 'files', 'team', 'plan.txt'), 'plan')
    for (const name of ['a.jpg', 'a.raw']) await writeFile(join(disk, 'photos', name), name)
    const store = await openStore(join(data, 'data.db'))
    const [admin] = await store.users.all()
    t.notMatch(admin?.passwordHash, '8ed9f6bd8fac83ba0b07c6f3b990d5f2b5853dc2620479eb3e0cbcee7c3645de')
    for (const { id, addition } of await store.storages.all()) {
      await store.storages.update(id, { addition: addition.replace('/srv/fixture', disk) })
    }
    await store.close()

    const gateway = await startGateway(t, { dataFolder: data, store: join(data, 'data.db') })
    const { accounts, settings } = gateway.gateway
    const adminToken = await signIn(gateway, { username: 'admin', password: 'Passw0rd-1' })
    t.same(await names(gateway, adminToken, '/'), ['both', 'files', 'photos'])
    t.notMatch(accounts.users.byName('admin')?.passwordHash, /^salted/, 'the first sign-in replaces the imported hash')
    t.type(
      await signIn(gateway, { username: 'admin', password: 'Passw0rd-1' }),
      'string',
      'and the password stays the same',
    )
    t.equal(await signIn(gateway, { username: 'admin', password: 'Passw0rd-2' }), 400)
    t.equal(settings.get('site_title'), 'Harbour')

    const nora = { username: 'nora', password: staticHash('Nora’s tide 7') }
    t.equal(await signIn(gateway, nora, '/api/auth/login/hash'), 402, 'two-step verification stays on')
    const noraToken = await signIn(
      gateway,
      { ...nora, otp_code: codeOf('JGJKTGE5XVQ2ULZIODQTDNZTARN5OB5L') },
      '/api/auth/login/hash',
    )
    const byPassword = { username: 'nora', password: 'Nora’s tide 7' }
    t.equal(await dav(gateway, byPassword, 'PROPFIND', ''), 403, 'the password alone does not open WebDAV')
    await t.rejects(sftpNames(gateway, byPassword), /authentication methods failed/, 'nor SFTP')
    const answers = [byPassword.password, codeOf('JGJKTGE5XVQ2ULZIODQTDNZTARN5OB5L', 1)]
    t.same(
      await sftpNames(gateway, { username: 'nora' }, answers),
      ['both', 'files', 'photos'],
      'with the code it does',
    )
    t.same(await names(gateway, noraToken, '/photos'), ['a.jpg'], 'the rule hides names')
    t.equal(await names(gateway, noraToken, '/files/team'), 403, 'the rule asks for a password')
    const privateKey = await readFile(fixture('openlist/nora_key'))
    let hostKey = ''
    const verify = (key: Buffer) => (hostKey = key.toString('base64')) !== ''
    const bySftp = {
      username: 'nora',
      privateKey,
      hostVerifier: verify,
      algorithms: { serverHostKey: ['rsa-sha2-512' as const] },
    }
    t.same(await sftpNames(gateway, bySftp), ['both', 'files', 'photos'])
    t.match(
      await readFile(fixture('openlist/ssh/ssh_host_rsa_key.pub'), 'utf8'),
      hostKey,
      'SFTP clients see the same host key',
    )

    const ole = { username: 'ole', password: 'ole:colon:pass' }
    t.equal(await dav(gateway, ole, 'PUT', 'new.txt'), 403)
    t.equal(await dav(gateway, { ...ole, password: 'ole' }, 'PROPFIND', ''), 401)
    t.notMatch(accounts.users.byName('ole')?.passwordHash, /^salted/)
    t.match(accounts.users.byName('ole'), { basePath: '/files/team', permission: 256 })
    t.match(accounts.users.byName('gone'), { disabled: true })

    const lanzou = gateway.gateway.storages.list().find(({ driver }) => driver === 'Lanzou')
    t.match(lanzou, { disabled: true, addition: /"type":"cookie"/ })
    await gateway.gateway.storages.delete(lanzou?.id ?? 0)
    t.equal(gateway.gateway.storages.list().length, 3, 'a storage of an unknown driver can be deleted')
  },
)

void t.test(
  'File Browser: a user has at most 1,000 shares, and all of them are stored',
  { skip: withoutSqlite },
  async (t) => {
    const made = await folder(t)
    const links = Array.from({ length: 1002 }, (_, at) => {
      return { hash: `link-${at}`, path: `/${at}`, userID: 1, expire: 0, password_hash: '' }
    })
    // The id of another one.
    links.push({ hash: 'link-0', path: '/again', userID: 1, expire: 0, password_hash: '' })
    await writeFile(join(made, 'shares.json'), JSON.stringify(links))
    const words = ['filebrowser', ...exports, '--shares', join(made, 'shares.json'), '--root', made, '--json']
    const { out, err } = await run(...words, '--data', join(made, 'data'))
    t.equal(err, '')
    const { items } = JSON.parse(out) as { items: readonly ReportLine[] }
    t.same(
      items
        .filter(({ kind, outcome }) => kind === 'share' && outcome === 'left out')
        .map(({ name, reason }) => [name, reason]),
      [
        ['link-1000: /1000', 'there can be at most 20000 shares, and 1000 of one user'],
        ['link-1001: /1001', 'there can be at most 20000 shares, and 1000 of one user'],
        ['link-0: /again', 'another share has this id'],
      ],
    )
    const store = await openStore(join(made, 'data', 'data.db'))
    t.teardown(() => store.close())
    const roots = (await store.shareRoots.all()).map(({ shareId, path }) => `${shareId} ${path}`)
    t.same(
      roots.sort(),
      links
        .slice(0, 1000)
        .map(({ hash, path }) => `${hash} ${path}`)
        .sort(),
    )
  },
)

void t.test(
  'File Browser: users keep their passwords and what was closed to them',
  { skip: withoutSqlite },
  async (t) => {
    const data = join(await folder(t), 'data')
    const disk = await folder(t)
    for (const path of ['trash', 'trash2', 'private', 'private-old', 'team/trash', 'team/tras']) {
      await mkdir(join(disk, path), { recursive: true })
    }
    for (const name of ['note.txt', 'trash.txt', 'door.key']) await writeFile(join(disk, 'team', name), name)
    const list = join(await folder(t), 'shares.json')
    await writeFile(list, JSON.stringify(fileBrowserShares))
    const words = ['filebrowser', ...exports, '--shares', list, '--root', disk, '--data', data, '--json']
    const { status, out, err } = await run(...words)
    const { items, notes } = JSON.parse(out) as { items: readonly ReportLine[]; notes: readonly string[] }
    t.same(compared(items, fileBrowserReport), fileBrowserReport)
    t.equal(items.length, Object.keys(fileBrowserReport).length)
    t.match(notes.join(), /\/share\/HASH and .*filebrowser_share_links is on/)
    t.match({ status, err }, { status: 1, err: '' }, 'a share is left out')
    await cp(fixture('openlist/ssh'), join(data, 'ssh'), { recursive: true })

    const gateway = await startGateway(t, { dataFolder: data, store: join(data, 'data.db') })
    const { users } = gateway.gateway.accounts
    const download = await fetch(`${gateway.url}/api/public/dl/5YdsHcNg`)
    t.equal(await download.text(), 'note.txt', 'a link that people have leads to the file')
    t.match((await fetch(`${gateway.url}/share/5YdsHcNg`)).url, /\/@s\/5YdsHcNg$/)
    const closed = gateway.gateway.shares.get('Qx_-0a1B')
    t.match(closed, { disabled: true, code: /^[a-z0-9]{20}$/, expires: new Date('2100-01-01') })
    t.same(
      closed?.roots.map(({ path }) => path),
      ['/team'],
    )
    const admin = { username: 'admin', password: 'Admin fb 1' }
    const greta = { username: 'greta', password: 'greta-1234' }
    const hashed = { ...greta, password: staticHash(greta.password) }
    t.equal(await signIn(gateway, hashed, '/api/auth/login/hash'), 400, 'a hash cannot be compared with one of bcrypt')
    t.equal(await signIn(gateway, { ...greta, password: 'greta-12345' }), 400)
    const gretaToken = await signIn(gateway, greta)
    t.same(
      await names(gateway, gretaToken, '/'),
      ['door.key', 'note.txt', 'tras'],
      'also names that begin with a denied one are closed',
    )
    t.equal(await names(gateway, gretaToken, '/trash'), await names(gateway, gretaToken, '/nowhere'))
    t.match(users.byName('greta')?.passwordHash, /^scrypt/, 'the first sign-in replaces the imported hash')
    t.type(await signIn(gateway, hashed, '/api/auth/login/hash'), 'string', 'then the hash can be compared')
    for (const [method, path, expected] of [
      ['PROPFIND', '', 207],
      ['PUT', 'new.txt', 403],
      ['PROPFIND', 'trash/', 404],
      ['GET', 'trash.txt', 404],
      ['DELETE', 'trash', 403],
    ] as const) {
      t.equal(await dav(gateway, greta, method, path), expected, `${method} /${path}`)
    }
    t.same(await sftpNames(gateway, greta), ['door.key', 'note.txt', 'tras'])
    const all = ['private', 'private-old', 'team', 'trash', 'trash2']
    t.same(await names(gateway, await signIn(gateway, admin), '/'), all)
    t.equal(await dav(gateway, admin, 'PUT', 'by-admin.txt'), 201)
    const hugoToken = await signIn(gateway, { username: 'hugo', password: 'hugo-1234' })
    t.same(await names(gateway, hugoToken, '/'), ['by-admin.txt', 'team'])
    t.same(
      await names(gateway, hugoToken, '/team'),
      ['note.txt', 'tras', 'trash', 'trash.txt'],
      'a rule is relative to the folder of the user, and a name that its expression denies is hidden',
    )
  },
)

/** The admin of a database whose other rows a test gives. */
const adminRow = {
  id: 1,
  username: 'root',
  pwd_hash: '0'.repeat(64),
  salt: 's',
  base_path: '/',
  role: 2,
  permission: 0,
  disabled: 0,
}

function databaseWith(
  rows: Partial<Record<keyof AlistDatabase['rows'], readonly ForeignRow[]>>,
  hasRoles = false,
): AlistDatabase {
  const none = { users: [], roles: [], storages: [], meta: [], ssh_public_keys: [], setting_items: [], sharing_dbs: [] }
  return { hasRoles, rows: { ...none, ...rows, users: [adminRow, ...(rows.users ?? [])] } }
}

async function mapped(database: AlistDatabase, program: 'alist' | 'openlist' = 'alist') {
  const report = new Report()
  return {
    ...(await fromAlist(program, database, { driverTypes, settings: coreSettings }, report)),
    lines: report.lines,
  }
}

void t.test('what cannot be expressed is disabled, closed or left out', async (t) => {
  const ann = { ...adminRow, id: 2, username: 'ann', role: '[3]', permission: 0xffff }
  const users = [
    ann,
    { ...ann, id: 3, username: 'bob', role: '[4]' },
    { ...ann, id: 4, username: 'cy', role: '[3]', pwd_hash: '', password: 'plain' },
    { ...ann, id: 5, username: 'di', disabled: 'T' },
    { ...ann, id: 5, username: 'eve' },
    { ...ann, id: 6, username: 'x'.repeat(1_000_000) },
  ]
  const roles = [
    { id: 3, name: 'whole', raw_permission: '[{"path":"/","permission":65800}]' },
    { id: 4, name: 'broken', raw_permission: '[{"path":"bob","permission":8}]' },
  ]
  const key = Buffer.from('AAAAC3NzaC1lZDI1NTE5AAAAIPjAam/SllZHtkU5f4wybUZRObi2QUyrJzBtczKECLF+', 'base64')
  const found = await mapped(
    databaseWith(
      {
        users,
        roles,
        ssh_public_keys: [
          { id: 1, user_id: 2, title: 'raw', key_str: key },
          { id: 2, user_id: 2, title: 'bad', key_str: 'x' },
        ],
        meta: [
          { id: 1, path: '/a', hide: '(?<!x)y', write: 1 },
          { id: 2, path: '/b', read_users: '[77]' },
          { id: 3, path: '/c', read_users: '[2,77]' },
          { id: 4, path: '/d', password: Buffer.from('fffe7077', 'hex'), p_sub: 1 },
        ],
        storages: [{ id: 1, mount_path: '/x', driver: 'Local', addition: '{"root_folder_path":"data"}' }],
        sharing_dbs: [{ id: 'abc' }],
      },
      true,
    ),
  )
  t.match(found.users, [
    { username: 'root', role: 'admin' },
    { username: 'ann', permission: 256, grantedOnly: false, disabled: false, keys: [{ title: 'raw', blob: key }] },
    { username: 'bob', permission: 0, grantedOnly: true, disabled: true },
    { username: 'cy', disabled: true },
    { username: 'di', disabled: true },
  ])
  t.match(found.rules, [
    { path: '/a', hide: '', write: false, readUsers: [1], readUsersSub: true, writeUsers: [1] },
    { path: '/b', readUsers: [1], readUsersSub: true },
    { path: '/c', readUsers: [2] },
    { path: '/d', readUsers: [1], readUsersSub: true, password: '' },
  ])
  t.match(found.storages, [{ mountPath: '/x', disabled: true }])
  const leftOut = found.lines.filter(({ outcome }) => outcome === 'left out')
  t.same(
    leftOut.map(({ kind, name }) => `${kind} ${name}`),
    ['group broken', 'SSH key ann: bad', 'user eve', `user ${'x'.repeat(199)}…`, 'share abc'],
  )
  t.equal(await isPassword('', found.users[3]?.passwordHash ?? ''), false)
})

void t.test('shares of OpenList keep their ids, codes and limits, and open nothing that was closed', async (t) => {
  const share = { files_raw: '["/a"]', creator_id: 1, pwd: '', accessed: 0, max_accessed: 0, disabled: 0 }
  const users = [
    { ...adminRow, id: 2, username: 'ann', role: 0, permission: permissionBits.share, base_path: '/a' },
    { ...adminRow, id: 3, username: 'guest', role: 1, disabled: 1 },
  ]
  const full = {
    ...{ files_raw: '["/a//b/","/c/b","/","/d"]', expires: '2030-12-31 23:59:59.5+01:00', pwd: 'c&d', accessed: 3 },
    ...{ max_accessed: 5, disabled: 'true', remark: 'r', readme: 'm', header: 'h', order_by: 'size', creator_id: 2 },
    ...{ order_direction: 'desc', extract_folder: 'front' },
  }
  const { shares, lines } = await mapped(
    databaseWith({
      users,
      sharing_dbs: [
        { id: 'full', ...share, ...full },
        { id: 'rights', ...share },
        { id: 'zero', ...share, creator_id: 2, expires: '0001-01-01 00:00:00 +0000 UTC', max_accessed: -1 },
        { id: 'later', ...share, creator_id: 2, expires: '2030-12-31T23:59:59Z', order_by: 'color' },
        { id: 'never', ...share, creator_id: 2, expires: 'tomorrow' },
        { id: 'full', ...share, creator_id: 2 },
        { id: 'a b', ...share, creator_id: 2 },
        { id: 'guest', ...share, creator_id: 3 },
        { id: 'gone', ...share, creator_id: 9 },
        { id: 'up', ...share, creator_id: 2, files_raw: '["/a/../b"]' },
        { id: 'no', ...share, creator_id: 2, files_raw: '[""]' },
        { id: 'json', ...share, creator_id: 2, files_raw: '[1]' },
      ],
    }),
    'openlist',
  )
  t.match(shares, [
    {
      ...{
        id: 'full',
        creatorId: 2,
        roots: ['/a/b', '/d'],
        code: 'c&d',
        visits: 3,
        maxVisits: 5,
        mode: 'read',
      },
      ...{ disabled: true, remark: 'r', readme: 'm', header: 'h', orderBy: 'size', orderDirection: 'desc' },
      ...{ extractFolder: 'front', expires: new Date('2030-12-31T22:59:59Z'), allowFrom: [], webdav: false },
    },
    { id: 'rights', disabled: false, expires: undefined },
    { id: 'zero', expires: undefined, maxVisits: -1 },
    { id: 'later', expires: new Date('2030-12-31T23:59:59Z'), orderBy: '' },
    { id: 'never', disabled: true, expires: undefined, code: /^[a-z0-9]{20}$/ },
  ])
  t.same(
    lines.filter(({ kind }) => kind === 'share').map(({ name, outcome, reason }) => `${name}: ${reason || outcome}`),
    [
      'full: without what visitors could not open there either',
      'rights: its creator may not share anything, so that nobody can open it',
      'zero: taken',
      'later: taken',
      'never: disabled: its end is not a time: set one',
      'full: another share has this id',
      'a b: share id can only contain letters, numbers, underscores, hyphens, and CJK characters',
      'guest: the guest cannot share anything',
      'gone: its creator is not taken',
      'up: a path cannot hold ".."',
      'no: must add at least 1 object',
      'json: its list of files is not a list of paths',
    ],
  )
})

void t.test('roles of AList are groups with grants', async (t) => {
  const bits = {
    seeHidden: 1,
    write: 8,
    rename: 16,
    remove: 128,
    webdavRead: 256,
    webdavManage: 512,
    pathLimit: 1 << 14,
  }
  const scopes = (...all: readonly (readonly [string, number])[]) =>
    JSON.stringify(all.map(([path, permission]) => ({ path, permission })))
  const roles = [
    { id: 0, name: 'general', description: 'all', raw_permission: scopes(['/', bits.webdavRead]) },
    { id: 1, name: 'guest', raw_permission: '[]', permission_scopes: scopes(['/', 0xffff]) },
    { id: 2, name: 'admin', raw_permission: scopes(['/', 0xffff]) },
    { id: 3, name: 'sales', raw_permission: scopes(['/a', bits.write | bits.pathLimit], ['/a/b/', bits.remove]) },
    { id: 4, name: 'twice', raw_permission: scopes(['/c', bits.write | bits.seeHidden], ['/c', bits.webdavManage]) },
    { id: 5, name: 'scopes', permission_scopes: scopes(['/d', bits.rename]) },
    { id: 6, name: 'paths', base_paths: '["/e","/f"]', permission: bits.write },
    { id: 7, name: 'path', base_path: '/g', permission: bits.write | bits.seeHidden },
    { id: 8, name: 'two lines', base_path: '/g,/h', permission: bits.write },
    { id: 9, name: 'sales', raw_permission: scopes(['/a', 0]) },
  ]
  const user = { ...adminRow, permission: 0xffff }
  const users = [
    { ...user, id: 2, username: 'ann', role: '[0,3,3]' },
    { ...user, id: 3, username: 'bob', role: '[3,4]', base_path: '/a' },
    { ...user, id: 4, username: 'cy', role: '[4]' },
    { ...user, id: 5, username: 'di', role: '[3,77]' },
    { ...user, id: 6, username: 'ed', role: '[1]' },
    { ...user, id: 7, username: 'flo', role: '[5,6,7]' },
    { ...user, id: 8, username: 'gil', role: '[2,3]' },
    { ...user, id: 9, username: 'hal', role: '[3,8]' },
    { ...user, id: 10, username: 'ida', role: '[3,9]' },
    { ...user, id: 11, username: 'jo', role: '[]' },
  ]
  const { users: found, groups, lines } = await mapped(databaseWith({ roles, users }, true))
  const allow = (path: string, ...rights: readonly string[]) => ({ path, allow: ['see', 'read', ...rights], deny: [] })
  t.same(
    groups.map(({ name, permission, members, grants, admin }) => ({ name, permission, members, grants, admin })),
    [
      { name: 'general', permission: 0, members: [2], grants: [], admin: false },
      { name: 'guest', permission: 0, members: [6], grants: [], admin: false },
      {
        ...{ name: 'sales', permission: 0, members: [2, 3, 5, 9, 10] },
        ...{ grants: [allow('/a', 'write'), allow('/a/b', 'remove')], admin: false },
      },
      { name: 'twice', permission: 0, members: [3, 4], grants: [allow('/c', 'write')], admin: false },
      { name: 'scopes', permission: 0, members: [7], grants: [allow('/d', 'rename')], admin: false },
      {
        name: 'paths',
        permission: 0,
        members: [7],
        grants: [allow('/e', 'write'), allow('/f', 'write')],
        admin: false,
      },
      { name: 'path', permission: 0, members: [7], grants: [allow('/g', 'write')], admin: false },
    ],
  )
  t.same(
    found.map(({ username, permission, grantedOnly, disabled }) => ({ username, permission, grantedOnly, disabled })),
    [
      { username: 'root', permission: 0, grantedOnly: false, disabled: false },
      { username: 'ann', permission: bits.webdavRead, grantedOnly: false, disabled: false },
      // Hidden names only where both roles show them.
      { username: 'bob', permission: bits.webdavManage, grantedOnly: true, disabled: false },
      { username: 'cy', permission: bits.webdavManage | bits.seeHidden, grantedOnly: true, disabled: false },
      ...['di', 'ed'].map((username) => ({ username, permission: 0, grantedOnly: true, disabled: true })),
      { username: 'flo', permission: 0, grantedOnly: true, disabled: false },
      { username: 'gil', permission: 0xffff & 0x3fff, grantedOnly: false, disabled: false },
      ...['hal', 'ida', 'jo'].map((username) => ({ username, permission: 0, grantedOnly: true, disabled: true })),
    ],
  )
  t.same(
    lines.filter(({ outcome }) => outcome !== 'taken').map(({ kind, name, reason }) => `${kind} ${name}: ${reason}`),
    [
      'group two lines: its permissions are not JSON text',
      'group sales: another group has this name',
      'user bob: it may not see hidden names, skip folder passwords or download from URLs where only some roles permit that; ' +
        'WebDAV, SFTP and archives, which only some of its roles permit, are for all of its folders',
      'user di: disabled: one of its roles is not taken',
      'user ed: disabled: it has no role that permits anything',
      'user flo: it may not see hidden names, skip folder passwords or download from URLs where only some roles permit that',
      'user gil: taken as a general user: there is one administrator and one guest',
      'user hal: disabled: one of its roles is not taken',
      'user ida: disabled: one of its roles is not taken',
      'user jo: disabled: it has no role that permits anything',
    ],
  )
})

void t.test('File Browser: what a user may not do, and whoever cannot be expressed', async (t) => {
  const perm = { admin: false, create: true, rename: true, modify: true, delete: true, share: true, download: true }
  const person = {
    id: 2,
    username: 'ann',
    password: '$2a$10$RgyRpsSksxDTmWjg.YS9gurU2d0w7JgRyXBWQV.41pmIuahpNMynW',
    scope: '..',
    perm,
    rules: [],
  }
  const deny = (path: string) => ({ allow: false, regex: false, path })
  const allow = (path: string) => ({ allow: true, regex: false, path })
  const expression = (raw: string, isAllowed = false) => ({ allow: isAllowed, regex: true, path: '', regexp: { raw } })
  const admin = { ...person, id: 1, username: 'root', perm: { ...perm, admin: true } }
  const people = [
    admin,
    person,
    {
      ...person,
      id: 3,
      username: 'bob',
      scope: '/b',
      perm: { ...perm, download: false },
      rules: [deny('/'), allow('/x')],
    },
    { ...person, id: 4, username: 'cy', rules: [allow('/x'), deny('/x/y'), allow('/x/y/z'), allow('/a/')] },
    { ...person, id: 5, username: 'dee', password: '$2a$31$RgyRpsSksxDTmWjg.YS9gurU2d0w7JgRyXBWQV.41pmIuahpNMynW' },
    { ...admin, id: 6, username: 'second', rules: [deny('/../own')] },
    { ...person, id: 7, username: 'eve', rules: [deny('/x'), expression('\\.key$')], hideDotfiles: true },
    { ...person, id: 8, username: 'flo', rules: [deny('/x'), allow('/x/y'), expression('secret.*txt')] },
    { ...person, id: 9, username: 'gil', rules: [expression('x', true)], lockPassword: true },
    { ...person, id: 10, username: 'hal', perm: { ...perm, execute: true, modify: false } },
  ]
  const config = '{"server":{"root":"/srv"},"settings":{}}'
  const report = new Report()
  const { users, rules } = await fromFileBrowser({ users: JSON.stringify(people), config }, report)
  const denied = (path: string, ...rights: readonly string[]) => ({ path, allow: [], deny: rights })
  const seen = (path: string) => ({ path, allow: ['see'], deny: [] })
  const general = { role: 'general', basePath: '/', disabled: false, grantedOnly: false, grants: [] as object[] }
  t.same(
    users.map(({ role, basePath, disabled, grantedOnly, grants }) => ({
      role,
      basePath,
      disabled,
      grantedOnly,
      grants,
    })),
    [
      { ...general, role: 'admin' },
      general,
      { ...general, basePath: '/b', grants: [denied('/b', 'see', 'read'), seen('/b/x')] },
      { ...general, grants: [denied('/x/y', 'see'), seen('/x/y/z')] },
      { ...general, disabled: true },
      { ...general, grants: [denied('/own', 'see')] },
      { ...general, grants: [denied('/x', 'see')] },
      { ...general, disabled: true, grantedOnly: true, grants: [denied('/x', 'see')] },
      { ...general, disabled: true, grantedOnly: true },
      general,
    ],
  )
  const changed = report.lines.filter(({ kind, outcome }) => kind === 'user' && outcome === 'changed')
  t.same(
    changed.map(({ name, reason }) => `${name}: ${reason}`),
    [
      'cy: its rule for /a/ permits nothing',
      'dee: disabled: it has no password that can be taken: set one',
      'second: taken as a general user: there is one administrator and one guest',
      'flo: disabled: its rule with the regular expression secret.*txt is not only about single names',
      'gil: disabled: its rule with the regular expression x permits something; it may change its password',
      'hal: it may not write or rename: it could replace files, which it may not change; commands are not run here',
    ],
  )
  t.match(rules, [{ path: '/', hide: '\\.key$\n^\\.', hideSub: true, readUsers: [] }])
  const { seeHidden } = permissionBits
  t.same(
    users.map(({ username, permission }) => `${username} ${String((permission & seeHidden) !== 0)}`),
    [
      ...['root', 'ann', 'bob', 'cy', 'dee', 'second'].map((name) => `${name} true`),
      ...['eve', 'flo', 'gil'].map((name) => `${name} false`),
      'hal true',
    ],
    'only those to whom names are denied do not see them',
  )
})

void t.test('File Browser: what also was denied is found once, or its users are disabled', async (t) => {
  const disk = await folder(t)
  const perm = { admin: false, create: true, rename: true, modify: true, delete: true, share: true, download: true }
  const password = '$2a$10$RgyRpsSksxDTmWjg.YS9gurU2d0w7JgRyXBWQV.41pmIuahpNMynW'
  const person = { username: 'ann', password, scope: '.', perm, rules: [] }
  const people = [
    { ...person, id: 1, username: 'root', perm: { ...perm, admin: true } },
    { ...person, id: 2 },
    { ...person, id: 3, username: 'bob', rules: [{ path: '/many/x' }] },
    { ...person, id: 4, username: 'cy', rules: [{ path: '/a' }, { path: '/abc' }] },
    { ...person, id: 5, username: 'dee', rules: [{ path: '/b/' }, { path: '/nowhere/x' }, { path: '/' }] },
  ]
  for (const path of ['a', 'ab', 'abc', 'b', 'b2', 'many']) await mkdir(join(disk, path))
  for (let count = 0; count < 1001; count++) appendFileSync(join(disk, 'many', `x${count}`), '')
  const imported = async (list: unknown, root: string) => {
    const report = new Report()
    const config = JSON.stringify({ server: { root }, settings: { rules: [{ path: '/ab' }] } })
    return { ...(await fromFileBrowser({ users: JSON.stringify(list), config }, report)), lines: report.lines }
  }
  const { users, lines } = await imported(people, disk)
  t.same(
    users.map(({ username, disabled }) => `${username} ${String(disabled)}`),
    ['root false', 'ann false', 'bob true', 'cy false', 'dee false'],
  )
  t.match(
    lines.find(({ name }) => name === 'bob')?.reason,
    /^disabled: more than 1000 names in \/many begin with x, which/,
  )
  t.same(Object.fromEntries(users.map(({ username, grants }) => [username, grants.map(({ path }) => path)])), {
    root: [],
    ann: ['/ab', '/abc'],
    bob: [],
    cy: ['/ab', '/a', '/abc'],
    dee: ['/'],
  })
  t.match(users[2], { username: 'bob', grantedOnly: true })
  const elsewhere = await imported(people, join(disk, 'gone'))
  t.match(elsewhere.lines.at(-1), {
    kind: 'storage',
    outcome: 'changed',
    reason: /^there is no folder .*gone here, so only/,
  })

  const crowd = Array.from({ length: 25 }, (_, id) => ({
    ...{ ...people[0], id, username: `u${id}`, perm: id === 0 ? people[0]?.perm : perm },
    rules: Array.from({ length: id === 1 ? 1000 : 900 }, (_, number) => ({ path: `/${number}/` })),
  }))
  const crowded = await imported(crowd, disk)
  t.match(crowded.lines.find(({ name }) => name === 'u1')?.reason, /can have at most 1000 grants/)
  t.match(crowded.lines.find(({ name }) => name === 'u24')?.reason, /^disabled: there can be at most 20000 grants/)
  t.same(
    crowded.users.filter(({ grantedOnly }) => grantedOnly).map(({ id, disabled }) => [id, disabled]),
    [1, 23, 24].map((id) => [id, true]),
  )
  await t.rejects(imported(Array(1_000_000).fill(0), disk), { code: 'invalid', reason: /no export of the users/ })
})

/** Every file of a folder, with what it holds. */
async function contentsOf(folder: string): Promise<Readonly<Record<string, string>>> {
  const read = (await readdir(folder)).map(async (name) => [name, await readFile(join(folder, name), 'base64')])
  return Object.fromEntries(await Promise.all(read)) as Record<string, string>
}

void t.test('a database in use is imported with its write-ahead log, and its folder is not touched', async (t) => {
  const [source, scratch] = [await folder(t), await folder(t)]
  const file = join(source, 'data.db')
  for (const name of ['data.db', 'config.json']) await cp(fixture(`openlist/${name}`), join(source, name))
  // As the running program has it open.
  const connection = connectSqlite(file)
  t.teardown(() => connection.destroy())
  await connection.raw('PRAGMA wal_autocheckpoint = 0')
  await connection('x_users').where({ username: 'ole' }).update({ username: 'newcomer' })
  const share = { id: 'aB3', files_raw: '["/files"]', expires: '2030-12-31 23:59:59+00:00', creator_id: 1, pwd: 'tide' }
  await connection('x_sharing_dbs').insert({ ...share, accessed: 1, max_accessed: 2, disabled: 0, readme: 'read' })
  t.equal((await readFile(file)).includes('newcomer'), false, 'only the log has the new name')
  const before = await contentsOf(source)
  t.match(Object.keys(before).sort(), ['config.json', 'data.db', 'data.db-shm', 'data.db-wal'])
  const options = { driverTypes, protocols: [] }
  const { installation } = await prepareImport({ program: 'openlist', folder: source, scratch }, options)
  t.ok(installation.users.some(({ username }) => username === 'newcomer'))
  t.match(installation.shares, [
    { id: 'aB3', creatorId: 1, roots: ['/files'], code: 'tide', visits: 1, maxVisits: 2, readme: 'read' },
  ])
  t.match(installation.shares[0]?.expires, new Date('2030-12-31T23:59:59Z'))
  t.same(await contentsOf(source), before)
  t.same(await readdir(scratch), [], 'the copy is removed')

  await t.test('the copy can be read by this user only', async (t) => {
    const modes = await withStillDatabase(file, scratch, async (copy) => {
      t.equal(dirname(dirname(copy)), scratch)
      return Promise.all([dirname(copy), copy, `${copy}-wal`].map(async (path) => (await stat(path)).mode & 0o777))
    })
    t.same(modes, [0o700, 0o600, 0o600])
  })

  await t.test('a database that changes while it is read is copied', async (t) => {
    const [own] = [join(await folder(t), 'data.db')]
    await writeFile(own, 'one')
    const seen = await withStillDatabase(own, scratch, async (path) => {
      const text = await readFile(path, 'utf8')
      if (path === own) await appendFile(own, ' two')
      return text
    })
    t.equal(seen, 'one two')
    await writeFile(`${own}-journal`, 'cut off')
    await t.rejects(withStillDatabase(own, scratch, readFile), {
      code: 'invalid',
      reason: /-journal has a change that was cut/,
    })
  })

  await t.test('one that changes all the time is refused', async (t) => {
    const own = join(await folder(t), 'data.db')
    for (const path of [own, `${own}-wal`]) await writeFile(path, 'x')
    const changing = setInterval(() => appendFileSync(`${own}-wal`, 'x'), 2)
    t.teardown(() => clearInterval(changing))
    await t.rejects(withStillDatabase(own, scratch, readFile), { code: 'busy', reason: /changes all the time: stop/ })
    t.same(await readdir(scratch), [])
  })
})

void t.test('hostile files are refused with one sentence', async (t) => {
  const made = await folder(t)
  const file = join(made, 'data.db')
  const refused = async (work: Promise<unknown>, reason: RegExp, what: string) => {
    const error: unknown = await work.then(
      () => undefined,
      (failure: unknown) => failure,
    )
    t.ok(isGatewayError(error, 'invalid'), `${what}: ${String(error)}`)
    t.match(error, { reason }, what)
    t.equal((error as { reason: string }).reason.includes('\n'), false)
  }
  await refused(readAlistDatabase(file, 'x_'), /cannot be read/, 'missing')
  await writeFile(file, 'no database '.repeat(1000))
  await refused(readAlistDatabase(file, 'x_'), /cannot be read as an SQLite database/, 'not SQLite')
  await cp(fixture('openlist/data.db'), file)
  await truncate(file, 20_000)
  await refused(readAlistDatabase(file, 'x_'), /cannot be read as an SQLite database/, 'truncated')
  await rm(file)
  const connection = connectSqlite(file)
  await connection.raw('PRAGMA journal_mode = DELETE')
  for (const table of ['x_users', 'y_users', 'x_storages', 'z_storages']) {
    await connection.schema.createTable(table, (columns) => void columns.integer('id'))
  }
  await connection.raw('alter table x_users add column username text')
  await connection.raw('insert into x_users values (1, zeroblob(2000000))')
  await connection.raw(
    'insert into y_users with recursive n(i) as (select 1 union all select i + 1 from n where i < 10001) select i from n',
  )
  await connection.raw(
    'create view y_storages as with recursive n(id) as (select 1 union all select id + 1 from n) select id from n',
  )
  await connection.destroy()
  await refused(readAlistDatabase(file, 'x_'), /values of more than 1048576 bytes/, 'a large value')
  await refused(readAlistDatabase(file, 'y_'), /more than 10000 rows/, 'many rows')
  await refused(readAlistDatabase(file, 'z_'), /no tables z_users and z_storages/, 'another prefix')

  const config = await readFile(exports[1], 'utf8')
  const users = await readFile(exports[0], 'utf8')
  const report = new Report()
  await refused(fromFileBrowser({ users: '['.repeat(1_000_000), config }, report), /is not JSON/, 'deep JSON')
  const deep = `${'['.repeat(200_000)}${']'.repeat(200_000)}`
  await refused(fromFileBrowser({ users: deep, config }, report), /no export of the users/, 'deep, valid JSON')
  await refused(
    fromFileBrowser({ users, config: '{}' }, report),
    /no export of the configuration/,
    'another configuration',
  )
  await refused(fromFileBrowser({ users: '[]', config }, report), /no administrator/, 'nobody')
  await refused(fromFileBrowser({ users, config, root: 'files' }, report), /is relative/, 'a relative folder')

  await writeFile(join(made, 'config.json'), '{"database":{"type":"mysql"}}')
  t.match(await run('alist', made, '--dry-run'), { status: 2, err: /of the type mysql: only SQLite/ })
})
