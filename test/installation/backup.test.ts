/** Backups and what can be wrong with them, in this process. */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { createGzip, gunzipSync, gzipSync } from 'node:zlib'
import * as tar from 'tar-stream'
import t, { type Test } from 'tap'
import { asPath } from '../../src/base/path.js'
import { backupBeforeUpgrade, writeBackup } from '../../src/installation/backup.js'
import { thisInstance } from '../../src/installation/instance.js'
import { restoreBackup } from '../../src/installation/restore.js'
import { migrations, newestVersion } from '../../src/database/migrations.js'
import { snapshotDatabase } from '../../src/database/snapshot.js'
import { openStore } from '../../src/database/store.js'
import { startGateway } from '../gateway.js'
import { ruleRow, userRow } from '../database/store-rows.js'
import { engines } from '../database/engines.js'
import { withoutSqlite } from '../store-location.js'

const scratch = '.tidegate-scratch-'

async function newFolder(t: Test): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-backup-'))
  t.teardown(() => rm(folder, { recursive: true }))
  return folder
}

/** A data folder with a user, and a configuration file beside it. */
async function installation(t: Test) {
  const folder = await newFolder(t)
  const [data, configFile] = [join(folder, 'data.db'), join(folder, 'own.json')]
  const store = await openStore(data)
  await store.users.insert(userRow({ username: 'ann' }))
  await store.close()
  await writeFile(configFile, '{"log_level":"warn"}')
  return { folder, source: { snapshot: (file: string) => snapshotDatabase(data, file), configFile } }
}

type Header = Parameters<tar.Pack['entry']>[0] & { readonly content?: Buffer }

/** A compressed archive of these members. */
async function archive(file: string, members: readonly Header[]): Promise<string> {
  const pack = tar.pack()
  for (const { content, ...header } of members) pack.entry(header, content ?? '')
  pack.finalize()
  await writeFile(file, await buffer(pack.pipe(createGzip())))
  return file
}

void t.test('a backup is one private file, and is restored with its configuration', async (t) => {
  const { folder, source } = await installation(t)
  const file = join(folder, 'new.tar.gz')
  const before = new Set(await readdir(folder))
  const manifest = await writeBackup(file, source)
  t.match(manifest, { format: 1, schema: newestVersion(), program: /^v/ })
  t.equal((await stat(file)).mode & 0o777, 0o600)
  t.same((await readdir(folder)).filter((name) => !before.has(name)).sort(), ['new.tar.gz'])

  const bytes = await readFile(file)
  await t.rejects(writeBackup(file, source), { code: 'exists', message: /new\.tar\.gz exists already/ })
  t.ok(bytes.equals(await readFile(file)))

  const data = join(folder, 'elsewhere', 'data')
  const restored = await restoreBackup(file, { data, store: '' })
  t.match(restored, { manifest, configuration: join(data, 'tidegate.json') })
  t.equal(await readFile(join(data, 'tidegate.json'), 'utf8'), '{"log_level":"warn"}')
  t.same((await readdir(data)).sort(), ['data.db', 'files', 'tidegate.json'])
  const store = await openStore(join(data, 'data.db'))
  t.match(await store.users.all(), [{ username: 'ann' }])
  await store.close()

  await t.rejects(restoreBackup(file, { data, store: '' }), { code: 'exists', message: /has rows in users/ })
  const other = join(folder, 'other')
  await mkdir(other)
  await writeFile(join(other, 'tidegate.json'), '{}')
  t.match(await restoreBackup(file, { data: other, store: '' }), { configuration: undefined })
  t.equal(await readFile(join(other, 'tidegate.json'), 'utf8'), '{}', 'an existing configuration is kept')
})

void t.test(
  'a backup that fails leaves nothing, and the next one removes what a killed process has left',
  async (t) => {
    const { folder, source } = await installation(t)
    const file = join(folder, 'new.tar.gz')
    const before = (await readdir(folder)).sort()
    const full = Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' })
    const snapshot = async (target: string) => {
      await writeFile(target, 'a part')
      throw full
    }
    await t.rejects(writeBackup(file, { ...source, snapshot }), {
      code: 'no_space',
      message: `${file} cannot be written: ENOSPC: no space left on device`,
    })
    t.same((await readdir(folder)).sort(), before)
    const configFile = join(folder, 'long.json')
    await writeFile(configFile, ' '.repeat(2_000_000))
    await t.rejects(writeBackup(file, { ...source, configFile }), { code: 'invalid', message: /larger than 1 MiB/ })
    await t.rejects(writeBackup(join(folder, 'missing', 'x'), source), {
      code: 'unavailable',
      message: /x cannot be written: ENOENT/,
    })

    const module = new URL('../../src/installation/instance.js', import.meta.url).href
    const words = [
      '--input-type=module',
      '-e',
      `import { thisInstance } from '${module}'; console.log(thisInstance().name)`,
    ]
    const dead = (await promisify(execFile)(process.execPath, words)).stdout.trim()
    for (const name of [thisInstance().name, 'of-another-machine']) await mkdir(join(folder, scratch + name))
    await mkdir(join(folder, scratch + dead), { mode: 0o700 })
    const others = `${dead}2`
    await mkdir(join(folder, scratch + others))
    await writeBackup(file, source)
    const left = (await readdir(folder)).filter((name) => name.startsWith(scratch))
    t.equal(left.length, 3)
    t.notOk(left.includes(scratch + dead), 'folders of processes that may run are kept')
    t.ok(left.includes(scratch + others), 'one that others may enter was not made by a backup')
  },
)

void t.test('archives that are damaged, hostile or newer are refused, and nothing is restored', async (t) => {
  const { folder, source } = await installation(t)
  const good = join(folder, 'good.tar.gz')
  const manifest = await writeBackup(good, source)
  const whole = gunzipSync(await readFile(good))
  const database = join(folder, 'snapshot.db')
  await snapshotDatabase(join(folder, 'data.db'), database)
  const named = (name: string, content: Buffer): Header => ({ name, content, size: content.length })
  const json = (value: unknown) => named('manifest.json', Buffer.from(JSON.stringify(value)))
  const first = json(manifest)
  const last = named('data.db', await readFile(database))
  const outside = join(folder, 'outside')
  const zeros = (size: number) => Buffer.alloc(size)
  const flipped = Buffer.from(whole)
  // The beginning of each page after the first.
  for (let at = whole.length - 200_000; at < whole.length; at += 4096) flipped.fill(0x5a, at, at + 64)
  const tooLong = Buffer.from(whole)
  // The size of the first member, in octal digits.
  tooLong.write('77777777777', 124)

  const cases: Readonly<Record<string, { readonly file: Buffer | readonly Header[]; readonly outcome: object }>> = {
    'no archive': { file: Buffer.from('hello'), outcome: { message: /it is damaged: incorrect header check/ } },
    empty: { file: Buffer.alloc(0), outcome: { message: /it is (damaged|incomplete)|it is no backup/ } },
    truncated: { file: (await readFile(good)).subarray(0, 5000), outcome: { message: /it is damaged/ } },
    'truncated before compression': {
      file: gzipSync(whole.subarray(0, 100_000)),
      outcome: { message: /it is damaged/ },
    },
    'a header that was changed': { file: gzipSync(tooLong), outcome: { message: /it is damaged/ } },
    'damaged rows': { file: gzipSync(flipped), outcome: { message: /its database is damaged/ } },
    'no database': { file: [first], outcome: { message: /it is incomplete/ } },
    'no manifest': { file: [last], outcome: { message: /does not begin with its manifest/ } },
    'another manifest': { file: [json({ format: 1 }), last], outcome: { message: /its manifest lacks values/ } },
    'no JSON': { file: [named('manifest.json', Buffer.from('{')), last], outcome: { message: /is not JSON/ } },
    'a newer format': {
      file: [json({ ...manifest, format: 2 }), last],
      outcome: { code: 'unsupported', message: /written by a newer Tidegate/ },
    },
    'a member twice': { file: [first, last, last], outcome: { message: /it has data\.db twice/ } },
    'an absolute name': { file: [first, named(outside, zeros(10)), last], outcome: { message: /it has the member/ } },
    'a name with ..': { file: [first, named('../outside', zeros(10)), last], outcome: { message: /"\.\.\/outside"/ } },
    'a symbolic link': {
      file: [first, { name: 'data.db', type: 'symlink', linkname: outside }],
      outcome: { message: /it has the member "data\.db"/ },
    },
    'a hard link': { file: [first, { name: 'data.db', type: 'link', linkname: '/etc/passwd' }], outcome: {} },
    'a large manifest': { file: [named('manifest.json', zeros(70_000))], outcome: { message: /is too large/ } },
    'a large configuration': {
      file: [first, named('tidegate.json', zeros(2_000_000))],
      outcome: { message: /is too large/ },
    },
    'a long header': {
      file: [{ ...first, pax: { comment: 'x'.repeat(5_000_000) } }, last],
      outcome: { message: /it is damaged: Header exceeds max size/ },
    },
    'bytes after its end': {
      file: gzipSync(Buffer.concat([whole, zeros(40_000_000)])),
      outcome: { message: /bytes that belong to no file/ },
    },
  }
  for (const [name, { file, outcome }] of Object.entries(cases)) {
    const [bad, data] = [join(folder, 'bad.tar.gz'), join(folder, 'refused')]
    if (Buffer.isBuffer(file)) await writeFile(bad, file)
    else await archive(bad, file)
    await t.rejects(restoreBackup(bad, { data, store: '' }), { code: 'invalid', ...outcome }, name)
    t.same(await readdir(data), [], name)
  }
  t.notOk(existsSync(outside))

  await t.test('a database that is larger than the free space is refused before it is unpacked', async (t) => {
    const pack = tar.pack()
    pack.entry({ name: 'manifest.json' }, JSON.stringify(manifest))
    // The header alone: the content is missing.
    pack.entry({ name: 'data.db', size: 2 ** 50 })
    const header: Buffer[] = []
    for await (const chunk of pack) {
      header.push(chunk as Buffer)
      if (Buffer.concat(header).length >= 1536) break
    }
    const bad = join(folder, 'huge.tar.gz')
    await writeFile(bad, gzipSync(Buffer.concat(header)))
    const data = join(folder, 'refused')
    await t.rejects(restoreBackup(bad, { data, store: '' }), { code: 'no_space', message: /not enough space/ })
  })

  await t.test('rows with which the daemon could not start are refused', async (t) => {
    const odd = join(folder, 'odd.db')
    await copyFile(database, odd)
    const store = await openStore(odd)
    await store.rules.insert(ruleRow({ path: asPath('/x') }))
    await store.close()
    await engines[0]?.query(odd, "update folder_rules set read_users = 'no JSON'")
    const bad = await archive(join(folder, 'odd.tar.gz'), [first, named('data.db', await readFile(odd))])
    const refused = { code: 'invalid', message: /its folder rules cannot be read: / }
    await t.rejects(restoreBackup(bad, { data: join(folder, 'refused'), store: '' }), refused)
  })

  await t.test('a newer schema is refused', async (t) => {
    const newer = join(folder, 'newer.db')
    await copyFile(database, newer)
    await (await openStore(newer, { steps: [...migrations, { breaking: async () => undefined }] })).close()
    const bad = await archive(join(folder, 'newer.tar.gz'), [first, named('data.db', await readFile(newer))])
    const refused = { code: 'unsupported', message: /was written by a newer Tidegate .*: run the newer program/ }
    await t.rejects(restoreBackup(bad, { data: join(folder, 'refused'), store: '' }), refused)
  })

  const missing = join(folder, 'not-made')
  await t.rejects(restoreBackup(join(folder, 'none'), { data: missing, store: '' }), {
    message: /cannot be read: ENOENT/,
  })
  await t.rejects(restoreBackup(folder, { data: missing, store: '' }), { message: /cannot be read: it is no file/ })
  t.notOk(existsSync(missing))
})

void t.test('an upgrade keeps a backup for each of the three newest schemas before', async (t) => {
  const { folder } = await installation(t)
  const [data, upgraded] = [join(folder, 'data'), join(folder, 'data', 'data.db')]
  await mkdir(data)
  // The oldest backup that is kept is of the schema that this program restores.
  const nothing = () => Promise.resolve()
  const newer = [...migrations, nothing, nothing, nothing]
  const beforeUpgrade = backupBeforeUpgrade({ data })
  const nameOf = (count: number) => `before-upgrade-from-schema-${newestVersion(newer.slice(0, count))}.tar.gz`
  for (let count = newer.length - 5; count < newer.length; count++) {
    const steps = newer.slice(0, count)
    const store = await openStore(upgraded, { steps, beforeUpgrade })
    await store.settings.set(new Map([[`setting ${count}`, 'kept']]))
    await store.close()
  }
  await writeFile(join(data, 'backups', 'own.tar.gz'), '')
  await (await openStore(upgraded, { steps: newer, beforeUpgrade })).close()
  await (await openStore(upgraded, { steps: newer, beforeUpgrade })).close()
  const kept = [3, 2, 1].map((back) => nameOf(newer.length - back))
  t.same((await readdir(join(data, 'backups'))).sort(), [...kept, 'own.tar.gz'].sort())
  const [oldest = ''] = kept
  const file = join(data, 'backups', oldest)
  t.equal((await stat(file)).mode & 0o777, 0o600)

  const restored = join(folder, 'restored')
  await restoreBackup(file, { data: restored, store: '' })
  const store = await openStore(join(restored, 'data.db'))
  t.same(
    [...(await store.settings.all()).keys()].sort(),
    [5, 4, 3].map((back) => `setting ${newer.length - back}`).sort(),
  )
  await store.close()

  // An older database, such as one that was restored by hand, has the lowest version.
  const back = newestVersion(newer.slice(0, newer.length - 4))
  await beforeUpgrade(back, async (file) => {
    await copyFile(upgraded, file)
    return back
  })
  const names = await readdir(join(data, 'backups'))
  t.same(names.sort(), [nameOf(newer.length - 4), ...kept.slice(1), 'own.tar.gz'].sort(), 'the last one is kept')
  await writeFile(join(data, 'backups', nameOf(newer.length - 1)), 'of the process that was first')
  await beforeUpgrade(newestVersion(newer.slice(0, -1)), (file) =>
    copyFile(upgraded, file).then(() => newestVersion(newer)),
  )
  const untouched = await readFile(join(data, 'backups', nameOf(newer.length - 1)), 'utf8')
  t.equal(untouched, 'of the process that was first', 'a database that was upgraded meanwhile replaces nothing')
})

void t.test('a start of the daemon writes a backup before it migrates', { skip: withoutSqlite }, async (t) => {
  const { folder: dataFolder } = await installation(t)
  const [database, older] = [join(dataFolder, 'data.db'), migrations.slice(0, -1)]
  await rm(database)
  const store = await openStore(database, { steps: older })
  await store.settings.set(new Map([['kept', 'yes']]))
  await store.close()
  await startGateway(t, { dataFolder })
  const file = join(dataFolder, 'backups', `before-upgrade-from-schema-${newestVersion(older)}.tar.gz`)
  const restored = join(dataFolder, 'restored')
  const { manifest } = await restoreBackup(file, { data: restored, store: '' })
  t.equal(manifest.schema, newestVersion(older))
  const old = await openStore(join(restored, 'data.db'))
  t.same([...(await old.settings.all())], [['kept', 'yes']])
  t.same(await old.users.all(), [], 'without the accounts that the start has made')
  await old.close()
})

void t.test('work in a daemon, which handles signals, is not ended by one', async (t) => {
  const folder = t.testdir()
  const module = new URL('../../src/installation/scratch-folder.js', import.meta.url).href
  const program = `
    const { inScratchFolder } = await import(${JSON.stringify(module)})
    let finish
    const alive = setInterval(() => undefined, 1000)
    process.on('SIGTERM', () => (console.log('stopping'), setTimeout(finish, 100), clearInterval(alive)))
    await inScratchFolder(${JSON.stringify(folder)}, () => new Promise((resolve) => (finish = resolve, console.log('working'))))`
  const child = spawn(process.execPath, ['--input-type=module', '-e', program])
  let out = ''
  child.stdout.on('data', (chunk: Buffer) => {
    out += chunk.toString()
    if (out === 'working\n') child.kill('SIGTERM')
  })
  t.same(await once(child, 'close'), [0, null])
  t.equal(out, 'working\nstopping\n', 'the signal arrives once')
  t.same(await readdir(folder), [])
})
