/** The import of another program's data into the running daemon. */
import { mkdir, readdir, readFile } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import type { ReportLine } from '../../../../src/installation/import/report.js'
import { connectSqlite } from '../../../../src/database/sqlite.js'
import { UploadedImports } from '../../../../src/installation/import/uploaded-imports.js'
import { serve, Served, type Envelope } from '../served.js'

const fixture = (path: string) => fileURLToPath(new URL(`../../../../../test/fixtures/${path}`, import.meta.url))

/** The parts of a form, by name. */
type Files = Readonly<Record<string, string | Buffer<ArrayBuffer>>>

async function openListFiles(): Promise<Files> {
  const files = { 'config.json': 'config.json', 'data.db': 'data.db', ssh_host_rsa_key: 'ssh/ssh_host_rsa_key' }
  const read = Object.entries(files).map(async ([name, path]) => [name, await readFile(fixture(`openlist/${path}`))])
  return Object.fromEntries(await Promise.all(read)) as Files
}

async function fileBrowserFiles(): Promise<Files> {
  const read = ['users.json', 'config.json'].map(async (name) => [name, await readFile(fixture(`filebrowser/${name}`))])
  return Object.fromEntries(await Promise.all(read)) as Files
}

function send(served: Served, query: string, files: Files): Promise<Envelope> {
  const form = new FormData()
  for (const [name, content] of Object.entries(files)) form.append('file', new Blob([content]), name)
  return served.form(`/api/admin/import?${query}`, form)
}

interface Report {
  readonly dry_run: boolean
  readonly items: readonly ReportLine[]
  readonly notes: readonly string[]
}

void t.test('files that a client sends are imported into the running daemon', async (t) => {
  const served = await serve(t)
  const { gateway } = served
  const files = await openListFiles()
  const scratch = async () => (await readdir(gateway.config.data)).filter((name) => name.includes('scratch'))

  for (const [query, sent, code, message] of [
    ['program=dropbox', files, 400, /program: must be alist, openlist, filebrowser or quantum/],
    ['program=openlist', {}, 400, /^the configuration config.json cannot be read: ENOENT/],
    ['program=openlist', { 'config.json': '{}' }, 400, /^the database data.db cannot be read: ENOENT/],
    ['program=openlist', { 'config.json': '[]' }, 400, /^the configuration config.json is not that of AList/],
    [
      'program=openlist',
      { 'config.json': '{}', 'data.db': 'x'.repeat(9999) },
      400,
      /^data.db cannot be read as an SQLite/,
    ],
    ['program=openlist', { ...files, '../data.db': 'x' }, 400, /^the file data.db was sent twice$/],
    ['program=openlist', { ...files, 'log.txt': 'x' }, 400, /^the import does not use the file log.txt$/],
    ['program=filebrowser', files, 400, /^the import does not use the file data.db$/],
    ['program=quantum', files, 400, /^the import does not use the file config.json$/],
    ['program=quantum', {}, 400, /^the database quantum.db cannot be read: ENOENT/],
    ['program=quantum', { 'a.db': 'x', 'b.db': 'x' }, 400, /^the file b.db was sent twice$/],
    [
      'program=quantum',
      { 'data.db': await readFile(fixture('openlist/data.db')) },
      400,
      /^quantum.db has no tables users/,
    ],
    [
      'program=filebrowser',
      { 'users.json': '[]', 'config.json': '{}' },
      400,
      /^this is no export of the configuration/,
    ],
    [
      'program=filebrowser',
      { ...(await fileBrowserFiles()), 'shares.json': '{}' },
      400,
      /^this is no export of the shares/,
    ],
  ] as const) {
    const answer = await send(served, query, sent)
    t.match(answer, { code, message }, `${query} ${Object.keys(sent).join()}`)
    t.same(await scratch(), [], 'nothing is left of it')
  }
  const twice = new FormData()
  for (const content of ['{}', '[]']) twice.append('file', new Blob([content]), 'config.json')
  t.match(await served.form('/api/admin/import?program=alist', twice), {
    code: 400,
    message: /config.json was sent twice/,
  })

  const dry = await send(served, 'program=openlist&dry_run=true', files)
  t.match(dry, { code: 200, data: { dry_run: true, notes: [] } })
  t.same(await served.names('/'), [], 'a dry run stores nothing')

  const small = new UploadedImports(
    { store: gateway.store, data: gateway.config.data, driverTypes: [], protocols: [], log: gateway.log },
    100,
  )
  const defaults = { denied: [], allowed: [] }
  const options = {
    ...({ program: 'alist', root: undefined, defaults, dryRun: true } as const),
    signal: new AbortController().signal,
  } as const
  const receiving = small.run(options, async (save) => {
    await save('config.json', Readable.from([Buffer.alloc(60)]))
    await save('data.db', Readable.from([Buffer.alloc(60)]))
  })
  await t.rejects(receiving, { code: 'too_large', reason: /more than 100 bytes: run "tidegate import"/ })
  t.same(await scratch(), [])

  // A request that stops in the middle of the form.
  const ended = new AbortController()
  const halting = new ReadableStream({
    pull(controller) {
      controller.enqueue(
        Buffer.from('--x\r\nContent-Disposition: form-data; name="file"; filename="data.db"\r\n\r\nSQL'),
      )
      return new Promise<void>(() => undefined)
    },
  })
  const half = fetch(`${served.url}/api/admin/import?program=openlist`, {
    ...{ method: 'POST', body: halting, signal: ended.signal, duplex: 'half' },
    headers: { authorization: served.token, 'content-type': 'multipart/form-data; boundary=x' },
  })
  while ((await scratch()).length === 0) await new Promise(setImmediate)
  t.match(await send(served, 'program=openlist', files), { code: 503, message: /an import is running/ })
  ended.abort()
  await t.rejects(half)
  while ((await scratch()).length > 0) await new Promise(setImmediate)

  const hostKeyBefore = await gateway.secrets.get('SSH host key rsa')
  let stored = await send(served, 'program=openlist', files)
  // The folder of the import before is removed a moment before that import has ended.
  while (stored.code === 503) stored = await send(served, 'program=openlist', files)
  const { code, data } = stored
  const { items, notes, dry_run: wasDry } = data as Report
  t.equal(code, 200)
  t.equal(wasDry, false)
  t.same(items, (dry.data as Report).items, 'the dry run has said the same')
  t.match(items, [{ kind: 'user', name: 'admin', outcome: 'taken' }])
  t.same(notes, ['The SFTP host key is used from the next start of this server.'])
  t.not(await gateway.secrets.get('SSH host key rsa'), hostKeyBefore)
  t.equal(
    await readFile(join(gateway.config.data, 'ssh', 'ssh_host_rsa_key'), 'utf8'),
    await readFile(fixture('openlist/ssh/ssh_host_rsa_key'), 'utf8'),
  )
  t.same(await scratch(), [])

  t.match(await served.get('/api/me'), { code: 401 }, 'the session of the first administrator has ended')
  const { data: signedIn } = await served.post('/api/auth/login', { username: 'admin', password: 'Passw0rd-1' })
  served.token = (signedIn as { token: string }).token
  t.same((await served.names('/')).sort(), ['files', 'photos'])
  t.equal(gateway.settings.get('site_title'), 'Harbour')
  t.match(
    gateway.rules.list().map(({ path }) => path),
    ['/files/team', '/photos'],
  )

  const again = await send(served, 'program=openlist&dry_run=1', files)
  t.match(again, { code: 409, message: /users, storages or rules of its own: import into a new one/ })
  t.match(await send(served, 'program=filebrowser', {}), { code: 409 })
})

void t.test('exports of File Browser are imported into the running daemon, which makes a guest', async (t) => {
  const served = await serve(t)
  const disk = join(served.gateway.config.data, '..', 'disk')
  await mkdir(join(disk, 'trash2'), { recursive: true })
  const files: Files = Object.fromEntries(
    await Promise.all(
      ['users.json', 'config.json'].map(
        async (name) => [name, await readFile(fixture(`filebrowser/${name}`))] as const,
      ),
    ),
  )
  const root = encodeURIComponent(disk)
  t.match(await send(served, 'program=filebrowser&root=files', files), { code: 400, message: /files is relative/ })
  const { data } = await send(served, `program=filebrowser&root=${root}`, files)
  t.ok((data as Report).items.some(({ name, reason }) => name === 'hugo: /trash2' && reason.includes('/trash')))
  t.match((data as Report).notes, [/^Users must sign in with their passwords once/])
  const { accounts, storages } = served.gateway
  t.match(storages.list(), [{ mountPath: '/', addition: JSON.stringify({ root_folder_path: disk }) }])
  t.match(accounts.users.byUniqueRole('guest'), { username: 'guest', disabled: true })
  const { code } = await served.post('/api/auth/login', { username: 'admin', password: 'Admin fb 1' })
  t.equal(code, 200)
})

void t.test('the database of File Browser Quantum is imported with its write-ahead log', async (t) => {
  const served = await serve(t)
  const folder = join(served.gateway.config.data, '..', 'quantum')
  await mkdir(folder)
  const connection = connectSqlite(join(folder, 'filebrowser.sqlite'))
  t.teardown(() => connection.destroy())
  await connection.raw('PRAGMA wal_autocheckpoint = 0')
  for (const table of [
    'users (user_id, username, perm_admin, user_data)',
    'groups (name, members)',
    'access_rules (source, path)',
    'shares (hash, user_id, source, path)',
  ]) {
    await connection.raw(`create table ${table}`)
  }
  const scope = { path: '/srv/docs', scope: '/', permissions: { view: true } }
  const data = (password: string) => JSON.stringify({ password, loginMethod: 'password', backendScopes: [scope] })
  const hash = '$2a$10$aLdU76aSo0LU/SbppCF0leLnfzIK2gRc8ne6eUaG46mSO3HtxRSTO'
  await connection('users').insert({ user_id: '1', username: 'root', perm_admin: 1, user_data: data(hash) })
  await connection('users').insert({ user_id: '2', username: 'ann', perm_admin: 0, user_data: data(hash) })
  await connection('groups').insert({ name: 'team', members: '["ann"]' })
  await connection('shares').insert({ hash: 'aB_-9', user_id: '1', source: '/srv/docs', path: '/plans/' })
  const files: Files = {
    'filebrowser.sqlite': await readFile(join(folder, 'filebrowser.sqlite')),
    'filebrowser.sqlite-wal': await readFile(join(folder, 'filebrowser.sqlite-wal')),
  }
  const unstated = await send(served, 'program=quantum&dry_run=true', files)
  t.match(
    JSON.stringify(unstated.data),
    /nobody sees there what no rule allows/,
    'it is closed if nothing is said of it',
  )
  const stated = await send(served, 'program=quantum&allow_by_default=%2Fsrv%2Fdocs', files)
  t.match(stated, { code: 200, data: { dry_run: false } })
  t.notMatch(JSON.stringify(stated.data), /nobody sees there/)
  const { accounts, grants, storages, shares, settings } = served.gateway
  const ann = accounts.users.byName('ann')
  t.match(storages.list(), [{ mountPath: '/docs' }])
  t.match(accounts.groups.byName('team'), { members: [ann?.id] })
  t.match(grants.of({ userId: ann?.id ?? 0 }), [{ path: '/docs', allow: ['see'] }], 'the running daemon has the grants')
  t.match(shares.get('aB_-9'), { creatorId: accounts.users.byName('root')?.id, roots: [{ path: '/docs/plans' }] })
  t.equal(settings.bool('filebrowser_share_links'), true)
})
