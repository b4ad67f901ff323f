/**
 * Storages on real servers through the protocols: rclone uploads a real tree, downloads, moves and removes it, over
 * WebDAV and over SFTP. Large uploads are in driver-streams.test.ts.
 */
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { cp, mkdir, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { nodesOfTests, startGateway, type Addresses } from '../gateway.js'
import { onlyWithVariants } from '../programs.js'
import { mount, remotes, skipOver, type RemoteServer } from '../servers/remotes.js'

const run = promisify(execFile)
const mebibyte = 1024 * 1024

async function temporaryFolder(t: Test): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-protocols-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  return folder
}

/** Folders of documentation that every Debian system has, up to a number of files. */
async function documentation(target: string, atMost: number): Promise<void> {
  const from = '/usr/share/doc'
  let files = 0
  // Some storages are case-insensitive.
  const taken = new Set<string>()
  for (const name of (await readdir(from)).sort()) {
    const found = await readdir(join(from, name), { recursive: true, withFileTypes: true }).catch(() => [])
    const regular = found.filter((entry) => entry.isFile())
    for (const entry of regular.slice(0, atMost - files)) {
      const file = join(entry.parentPath, entry.name)
      if ((await stat(file)).size > mebibyte || taken.has(file.toLowerCase())) continue
      taken.add(file.toLowerCase())
      await mkdir(dirname(join(target, file.slice(from.length))), { recursive: true })
      await cp(file, join(target, file.slice(from.length)))
      files++
    }
    if (files >= atMost) return
  }
}

const strange: Readonly<Record<string, Buffer>> = {
  'with space.and.dots...tar.gz': randomBytes(65_536),
  '.hidden/..twice': randomBytes(1),
  'empty file': Buffer.alloc(0),
  'emoji 🦀🌊/😀 😀.png': randomBytes(200_000),
  '你好 世界/ünï +%25 & "x".txt': Buffer.from('hello'),
  "it's #1?/~tilde;a=b": Buffer.from('x'),
  [`${'long '.repeat(20)}name`]: randomBytes(70_000),
  'folder/one level/two levels/three levels/file': randomBytes(9 * mebibyte),
}

async function realTree(t: Test, documents: number): Promise<string> {
  const folder = await temporaryFolder(t)
  await documentation(folder, documents)
  for (const [name, content] of Object.entries(strange)) {
    await mkdir(dirname(join(folder, name)), { recursive: true })
    await writeFile(join(folder, name), content)
  }
  return folder
}

/** rclone with one remote for each protocol, `dav:` and `sftp:`. */
async function rcloneFor(t: Test, { davUrl, sftpPort }: Addresses, password: string) {
  const config = join(await temporaryFolder(t), 'rclone.conf')
  const obscured = (await run('rclone', ['obscure', password])).stdout.trim()
  await writeFile(
    config,
    [
      ...['[dav]', 'type = webdav', `url = ${davUrl}`, 'vendor = other', 'user = admin', `pass = ${obscured}`],
      ...['[sftp]', 'type = sftp', 'host = 127.0.0.1', `port = ${sftpPort}`, 'user = admin', `pass = ${obscured}`],
      ...['shell_type = none', 'disable_hashcheck = true', ''],
    ].join('\n'),
  )
  return async (...words: readonly string[]): Promise<string> => {
    const options = ['--config', config, '--retries', '1', '--transfers', '8', '--checkers', '8']
    const { stdout } = await run('rclone', [...options, ...words], { maxBuffer: 1 << 26, timeout: 300_000 })
    return stdout
  }
}

type Protocol = 'dav' | 'sftp'

async function treeGoesThrough(
  t: Test,
  server: RemoteServer,
  tree: string,
  protocols: readonly Protocol[],
): Promise<void> {
  const running = await startGateway(t)
  await mount(running, running.adminPassword, await server.storages('/remote'))
  const rclone = await rcloneFor(t, running, running.adminPassword)
  const count = (await readdir(tree, { recursive: true, withFileTypes: true })).filter((each) => each.isFile()).length
  for (const protocol of protocols) {
    await t.test(`over ${protocol === 'dav' ? 'WebDAV' : 'SFTP'}`, async (t) => {
      const at = (path: string) => `${protocol}:/remote/${path}`
      await rclone('copy', tree, at('docs'))
      await rclone('check', '--download', tree, at('docs'))
      t.match(JSON.parse(await rclone('size', '--json', at('docs'))), { count }, `${count} files were copied`)
      await rclone('moveto', at('docs'), at('moved to/ another place'))
      t.same((await rclone('lsf', at(''))).trim().split('\n'), ['moved to/'], 'nothing is left at the source')
      const back = join(await temporaryFolder(t), 'back')
      await rclone('copy', at('moved to/ another place'), back)
      t.equal((await run('diff', ['--recursive', '--brief', tree, back])).stdout, '', 'the downloaded tree is the same')
      // The listing by which another node decides that a folder is empty may be late.
      const retries = nodesOfTests > 1 ? ['--retries', '5', '--retries-sleep', '500ms'] : []
      await rclone('purge', at('moved to'), ...retries)
      t.equal(await rclone('lsf', at('')), '', 'the whole tree can be removed')
    })
  }
}

/** Number of documents in the tree: with TIDEGATE_VARIANTS=all more are copied. */
const documents = onlyWithVariants === false ? 40 : 20
const [large, small] = [await realTree(t, documents), await realTree(t, 20)]

// Servers and clients mostly wait for each other.
t.jobs = 2

for (const [index, remote] of remotes.entries()) {
  // `npm test`, and a backend that repeats others, take the two protocols by turns.
  const isWhole = onlyWithVariants === false && remote.isVariant !== true
  const protocols: readonly Protocol[] = isWhole ? ['dav', 'sftp'] : [index % 2 === 0 ? 'dav' : 'sftp']
  void t.test(remote.name, { skip: skipOver(remote, 'rclone') }, async (t) => {
    // Some servers take longer to start than the whole test.
    const server = await remote.start()
    t.teardown(() => server.stop())
    await t.test('a source tree is unchanged after a copy there and back', (t) =>
      treeGoesThrough(t, server, remote.isSlow === true || remote.isVariant === true ? small : large, protocols),
    )
  })
}
