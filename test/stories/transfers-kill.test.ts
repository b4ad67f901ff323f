/**
 * The daemon is killed during copies, moves, uploads and downloads as tasks, repeatedly, between local folders, one of
 * which fails at random, and to a memory driver, which loses its content. After a restart it resumes: no file is lost
 * or corrupt, no temporary file is left, and every task ends.
 */
import { createHash, randomBytes, randomInt } from 'node:crypto'
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { rangeStart, startScripted } from '../offline-downloads/scripted-server.js'
import { startDaemon } from '../gateway.js'
import { marker } from '../stored-files.js'
import { connect, ended, kinds, type Client, type Kind, type TaskShown } from './task-client.js'

const rounds = Number(process.env.TIDEGATE_KILL_ROUNDS ?? 4)
const program = fileURLToPath(new URL('../servers/unreliable-daemon.js', import.meta.url))
const slowProgram = fileURLToPath(new URL('../servers/slow-daemon.js', import.meta.url))
/** Digests by path below a folder. */
type Digests = ReadonlyMap<string, string>

function digest(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex')
}

async function digestsBelow(folder: string): Promise<Digests> {
  const found = new Map<string, string>()
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => [])
  for (const entry of entries) {
    if (entry.isDirectory()) continue
    const file = join(entry.parentPath, entry.name)
    found.set(file.slice(folder.length + 1), digest(await readFile(file)))
  }
  return found
}

/** Digests of these files, read from the daemon. */
async function digestsThrough(client: Client, folder: string, files: Iterable<string>): Promise<Digests> {
  const found = new Map<string, string>()
  for (const file of files) found.set(file, digest(await client.read(`${folder}/${file}`)))
  return found
}

/** Number of small files in a folder, which are copied as bundles. */
const smallFiles = 70

/** Creates files of different sizes, in folders. The last one is large enough for resumable uploads. */
async function makeTree(folder: string): Promise<Digests> {
  await mkdir(join(folder, 'small'), { recursive: true })
  for (let index = 0; index < smallFiles; index++) {
    await writeFile(join(folder, 'small', `file-${index}`), randomBytes(randomInt(5000)))
  }
  const sizes = [0, 1, 4096, 70_000, ...Array.from({ length: 8 }, () => randomInt(600_000)), 6_000_000, 17_000_000]
  for (const [index, size] of sizes.entries()) {
    const within = join(folder, index % 3 === 0 ? '' : index % 3 === 1 ? 'sub' : 'sub/deeper')
    await mkdir(within, { recursive: true })
    await writeFile(join(within, `file-${index}`), randomBytes(size))
  }
  return digestsBelow(folder)
}

/** Responds as web servers do: with the whole content, or with the range of a resumed download. */
function sendPart(request: IncomingMessage, answer: ServerResponse, content: Buffer = Buffer.alloc(0)): void {
  const start = rangeStart(request)
  const part = content.subarray(start)
  const range = start > 0 && { 'content-range': `bytes ${start}-${content.length - 1}/${content.length}` }
  answer.writeHead(range ? 206 : 200, { 'content-length': part.length, etag: '"one"', ...range }).end(part)
}

void t.test(
  'a kill during transfers loses no file and leaves no temporary files',
  { timeout: 4 * 3_600_000 },
  async (t) => {
    const disks = t.testdir({ left: {}, right: {}, shaky: {} })
    let daemon = await startDaemon(t, { program })
    let client = await connect(daemon)
    const fetched = new Map<string, Buffer>()
    const server = await startScripted(t, (request, answer) =>
      sendPart(request, answer, fetched.get(request.url ?? '')),
    )
    await client.post('/api/admin/setting/save', [{ key: 'egress_networks', value: '127.0.0.1/32' }])
    for (const [name, driver] of [
      ['left', 'Local'],
      ['right', 'Local'],
      ['shaky', 'Unreliable'],
      ['memory', 'Memory'],
    ] as const) {
      const addition = JSON.stringify(driver === 'Memory' ? {} : { root_folder_path: join(disks, name) })
      await client.post('/api/admin/storage/create', { mount_path: `/${name}`, driver, addition })
    }
    for (let round = 0; round < rounds; round++) {
      const names = {
        copied: `copied-${round}`,
        moved: `moved-${round}`,
        shaken: `shaken-${round}`,
        shifted: `shifted-${round}`,
      }
      const copied = await makeTree(join(disks, 'left', names.copied))
      const moved = await makeTree(join(disks, 'left', names.moved))
      const shifted = await makeTree(join(disks, 'left', names.shifted))
      const shaken = await makeTree(join(disks, 'shaky', names.shaken))
      // The files that these two replace.
      const older = { [names.copied]: 'file-0', [names.shaken]: 'old-file' }
      for (const [name, file] of Object.entries(older)) {
        await mkdir(join(disks, 'right', name, 'old-folder'), { recursive: true })
        await writeFile(join(disks, 'right', name, file), 'old')
        await writeFile(join(disks, 'right', name, 'old-folder', 'old-file'), 'old')
      }
      const old = digest(Buffer.from('old'))
      const bodies = [randomBytes(17_000_000), randomBytes(100)]
      const download = `download-${round}`
      fetched.set(`/${download}`, randomBytes(randomInt(20_000_000)))
      const killAt = randomInt(400)
      const begun = Date.now()
      const asked = Promise.all([
        client.post('/api/fs/copy', { src_dir: '/left', dst_dir: '/right', names: [names.copied], overwrite: true }),
        client
          .post('/api/fs/move', { src_dir: '/left', dst_dir: '/right', names: [names.shifted] })
          .catch(() => undefined),
        client
          .post('/api/fs/move', { src_dir: '/left', dst_dir: '/shaky', names: [names.moved] })
          .catch(() => undefined),
        client
          .post('/api/fs/move', { src_dir: '/shaky', dst_dir: '/right', names: [names.shaken], overwrite: true })
          .catch(() => undefined),
        client.post('/api/fs/copy', { src_dir: '/left', dst_dir: '/memory', names: [names.copied] }),
        client.post('/api/fs/add_offline_download', {
          urls: [`${server.url}/${download}`],
          path: '/right/downloads',
          tool: 'SimpleHttp',
          delete_policy: '',
        }),
        ...bodies.map((body, index) => client.upload(`/right/upload-${round}-${index}`, body)),
      ])
      await wait(Math.max(0, killAt - (Date.now() - begun)))
      await daemon.kill()
      const [copying, , , , remembering, downloading, ...uploads] = await asked

      daemon = await startDaemon(t, { program, dataFolder: daemon.dataFolder, adminPassword: daemon.adminPassword })
      client = await connect(daemon)
      const cutOff: TaskShown[] = []
      for (const kind of kinds) cutOff.push(...((await client.get(`/api/task/${kind}/undone`)) as TaskShown[]))
      const tasks = new Map<Kind, readonly TaskShown[]>()
      for (const kind of kinds) tasks.set(kind, await ended(client, kind))
      const at = `round ${round}, killed after ${killAt} ms with ${cutOff.length} unfinished tasks`
      const stateOf = (kind: Kind, ...words: readonly string[]) =>
        tasks.get(kind)?.find((task) => words.every((word) => task.name.includes(word)))

      t.same(await digestsBelow(join(disks, 'left', names.copied)), copied, `${at}: the source of a copy is unchanged`)
      if (copying !== undefined) {
        t.match(stateOf('copy', names.copied, '/right'), { state: 2 }, `${at}: the copy was finished`)
        t.same(await digestsBelow(join(disks, 'right', names.copied)), copied, `${at}: the copy is complete`)
      }
      if (remembering !== undefined) {
        t.match(stateOf('copy', names.copied, '/memory'), { state: 2 }, `${at}: the copy in memory was finished`)
        t.same(await digestsThrough(client, `/memory/${names.copied}`, copied.keys()), copied, `${at}: it is complete`)
        await client.post('/api/fs/remove', { dir: '/memory', names: [names.copied] })
      }
      for (const [tree, from, to, name] of [
        [moved, 'left', 'shaky', names.moved],
        [shifted, 'left', 'right', names.shifted],
        [shaken, 'shaky', 'right', names.shaken],
      ] as const) {
        const [near, far] = [await digestsBelow(join(disks, from, name)), await digestsBelow(join(disks, to, name))]
        for (const [file, hash] of tree) {
          const found = [near.get(file), far.get(file)].filter((each) => each !== undefined)
          t.ok(found.length > 0 && found.every((each) => each === hash), `${at}: ${name}/${file} is complete`)
        }
        const task = stateOf('move', name)
        for (const [file, hash] of [...near, ...far]) {
          t.ok(tree.has(file) || (hash === old && task?.state !== 2), `${at}: ${name}/${file} is an expected file`)
        }
        if (task?.state === 2) t.equal(near.size, 0, `${at}: ${name} is moved as reported`)
      }
      for (const [index, body] of bodies.entries()) {
        const name = `upload-${round}-${index}`
        const stored = await readFile(join(disks, 'right', name)).catch(() => undefined)
        const told = uploads[index] !== undefined
        t.ok(
          told ? stored?.equals(body) : (stored?.equals(body) ?? true),
          `${at}: ${name} is complete${told ? '' : ' or missing'}`,
        )
      }
      const [kept, content] = [join(disks, 'right/downloads', download), fetched.get(`/${download}`)]
      const stored = await readFile(kept).catch(() => undefined)
      if (downloading !== undefined) {
        t.match(stateOf('offline_download', download), { state: 2 }, `${at}: the download was finished`)
      }
      if (downloading !== undefined || stored)
        t.ok(content && stored?.equals(content), `${at}: ${download} is complete`)
      fetched.clear()
      for (const disk of ['left', 'right', 'shaky']) {
        const names = await readdir(join(disks, disk), { recursive: true })
        t.same(
          names
            .filter((name) => name !== marker)
            .filter((name) => name.includes('.tidegate-') && !/\.tidegate-staging(\/[^/]+)?$/.test(name)),
          [],
          `${at}: no backup or staged file is left in ${disk}`,
        )
      }
      t.same(await readdir(join(daemon.dataFolder, 'spool')), [], `${at}: the spool is empty`)
      for (const kind of kinds) await client.post(`/api/task/${kind}/clear_done`, {})
      // So that the next round takes as long as the first.
      for (const disk of ['left', 'right', 'shaky']) {
        for (const name of await readdir(join(disks, disk))) {
          if (name.includes(`-${round}`) || name === 'downloads') await rm(join(disks, disk, name), { recursive: true })
        }
      }
    }
    await daemon.stop()
  },
)

/** A slow storage, a fast one, and a tree on the slow one that `move` moves to the other over WebDAV. */
async function startMove(t: Test) {
  const disks = t.testdir({ left: {}, right: {} })
  let daemon = await startDaemon(t, { program: slowProgram })
  const client = await connect(daemon)
  for (const [name, driver] of [
    ['left', 'Slow'],
    ['right', 'Local'],
  ] as const) {
    const addition = JSON.stringify({ root_folder_path: join(disks, name) })
    await client.post('/api/admin/storage/create', { mount_path: `/${name}`, driver, addition })
  }
  const [from, to] = [join(disks, 'left', 'tree'), join(disks, 'right', 'tree')]
  const move = async (member = '') => {
    const { davUrl, adminPassword } = daemon
    const authorization = `Basic ${Buffer.from(`admin:${adminPassword}`).toString('base64')}`
    const headers = { authorization, destination: `${davUrl}right/tree${member}` }
    return (await fetch(`${davUrl}left/tree${member}`, { method: 'MOVE', headers })).status
  }
  return {
    ...{ disks, from, to, move },
    tree: await makeTree(from),
    readBytes: async () => {
      const log = await readFile(join(daemon.dataFolder, 'bytes.log'), 'utf8').catch(() => '')
      return log.split('\n').reduce((sum, line) => sum + Number(line.split(' ')[2] ?? 0), 0)
    },
    kill: () => daemon.kill(),
    restart: async () => {
      const { dataFolder, adminPassword } = daemon
      daemon = await startDaemon(t, { program: slowProgram, dataFolder, adminPassword })
    },
    stop: () => daemon.stop(),
  }
}

void t.test('a kill during a MOVE over WebDAV keeps the source, and the same request completes it', async (t) => {
  const { disks, from, to, tree, move, ...daemon } = await startMove(t)
  const moved = move().catch(() => 'cut off')
  // The large files take longer than the others, so that some files have been copied.
  while ((await daemon.readBytes()) < 12_000_000) await wait(5)
  await daemon.kill()
  t.equal(await moved, 'cut off')
  t.ok((await digestsBelow(to)).size > 0, 'the kill came during the copy')
  t.same(await digestsBelow(from), tree, 'the source is complete')

  await daemon.restart()
  while ((await move()) === 503) await wait(50)
  t.same(await digestsBelow(to), tree, 'the target is complete')
  t.notOk((await readdir(join(disks, 'left'))).includes('tree'), 'the source is removed')
  const names = await readdir(join(disks, 'right'), { recursive: true })
  t.same(
    names.filter((name) => /\.tidegate-staging.*\/.*\/|backup/.test(name)),
    [],
    'no staged file is left',
  )
  await daemon.stop()
})

void t.test(
  'a kill while a MOVE removes the source: a MOVE of the remainder removes nothing at the target',
  async (t) => {
    const { disks, from, to, tree, move, ...daemon } = await startMove(t)
    const moved = move().catch(() => 'cut off')
    const names = async () => await readdir(join(from, 'small'))
    while ((await names()).length === smallFiles) await wait(5)
    await daemon.kill()
    t.equal(await moved, 'cut off')
    t.ok((await names()).length > 0, 'the kill came during the removal')
    t.same(await digestsBelow(to), tree, 'the target is complete')

    await daemon.restart()
    while ((await move('/small')) === 503) await wait(50)
    t.same(await digestsBelow(to), tree, 'the target is complete after a MOVE of a folder of the remainder')
    await move()
    t.same(await digestsBelow(to), tree, 'and after the same MOVE')
    t.notOk((await readdir(join(disks, 'left'))).includes('tree'), 'the source is removed')

    await mkdir(from)
    await writeFile(join(from, 'other'), 'other')
    t.equal(await move(), 204)
    t.same(await readdir(to), ['other'], 'a new folder of that name replaces the target')
    await daemon.stop()
  },
)
