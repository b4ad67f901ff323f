/** Interrupted large uploads to a Local storage: which bytes are resumed, and what happens to the others. */
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  appendFileSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import type { Driver } from '../../../src/contract/driver.js'
import type { Instance } from '../../../src/contract/driver-env.js'
import { GatewayError } from '../../../src/base/errors.js'
import { thisInstance } from '../../../src/installation/instance.js'
import { at, refuses } from '../../driver-conformance/subject.js'
import { openLocal } from '../env.js'

const run = promisify(execFile)
const canMount = process.platform === 'linux' && process.getuid?.() === 0
const data = randomBytes(3 * 1024 * 1024 + 7)
const half = data.subarray(0, 2 * 1024 * 1024)

async function folderFor(t: Test): Promise<string> {
  const folder = await mkdtemp(join(await realpath(tmpdir()), 'tidegate-uploads-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  return folder
}

async function begin(driver: Driver, path: string, resume?: string) {
  const upload = await driver.upload?.(at(path), { size: data.length, resumeToken: resume })
  if (!upload) throw new GatewayError('unsupported')
  return upload
}

/** Sends the first half, then fails. Resolves to the token of the upload. */
async function cutOff(t: Test, driver: Driver, path: string): Promise<string> {
  const upload = await begin(driver, path)
  const body = function* () {
    yield half
    throw new GatewayError('unavailable')
  }
  await refuses(t, () => upload.write(Readable.from(body(), { objectMode: false })), 'unavailable', 'the source fails')
  await upload.close()
  return upload.token
}

/** Sends the rest. Resolves to the number of bytes that were committed before. */
async function goOn(driver: Driver, path: string, token: string): Promise<number> {
  const upload = await begin(driver, path, token)
  const { committedOffset: confirmed } = upload
  await upload.write(Readable.from([data.subarray(confirmed)], { objectMode: false }))
  await upload.commit()
  await upload.close()
  return confirmed
}

function stagedIn(folder: string): string[] {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => !entry.isDirectory())
  return files
    .map(({ parentPath, name }) => join(parentPath, name))
    .filter((path) => path.includes('.tidegate-staging'))
}

await t.test('Local does not resume a staged file that was changed, and removes it', async (t) => {
  const changes: Readonly<Record<string, (file: string, folder: string) => void>> = {
    gone: (file) => rmSync(file),
    longer: (file) => appendFileSync(file, data),
    'a symlink to another file': (file, folder) => {
      rmSync(file)
      symlinkSync(join(folder, 'other'), file)
    },
    'a second hard link': (file, folder) => linkSync(file, join(folder, 'twin')),
    'a folder': (file) => {
      rmSync(file)
      mkdirSync(file)
    },
  }
  for (const [what, change] of Object.entries(changes)) {
    const folder = await folderFor(t)
    writeFileSync(join(folder, 'other'), 'of somebody')
    const driver = await openLocal(folder)
    const token = await cutOff(t, driver, '/file')
    const [staged = ''] = stagedIn(folder)
    change(staged, folder)
    const confirmed = await goOn(driver, '/file', token).catch((error: unknown) => String(error))
    t.equal(confirmed, 0, what)
    t.ok(readFileSync(join(folder, 'file')).equals(data), 'the file is complete')
    t.equal(readFileSync(join(folder, 'other'), 'utf8'), 'of somebody')
    t.same(stagedIn(folder), [])
    await driver.close?.()
  }
})

await t.test('Local resumes an upload of an earlier process only within the same boot', async (t) => {
  const run = (name: string, boot: string | undefined): Instance => ({ name, boot, isOver: () => true })
  for (const [before, after, isKept] of [
    ['abc', 'abc', true],
    ['abc', 'def', false],
    [undefined, undefined, false],
  ] as const) {
    const folder = await folderFor(t)
    const first = await openLocal(folder, {}, { instance: run('run-1', before) })
    const token = await cutOff(t, first, '/file')
    await first.close?.()
    const second = await openLocal(folder, {}, { instance: run('run-2', after), resumableUploads: async () => [token] })
    t.equal(await goOn(second, '/file', token), isKept ? half.length : 0)
    t.ok(readFileSync(join(folder, 'file')).equals(data))
    t.same(stagedIn(folder), [])
    await second.close?.()
    t.same(readdirSync(folder), ['file'])
  }
  t.not(thisInstance().boot, '')
})

await t.test(
  'Local stages an upload for another file system on that file system',
  { skip: canMount ? false : 'only root can mount' },
  async (t) => {
    const folder = await folderFor(t)
    const nested = join(folder, 'nested')
    mkdirSync(nested)
    await run('mount', ['-t', 'tmpfs', '-o', 'size=32m', 'tmpfs', nested])
    t.teardown(() => run('umount', ['-l', nested]))
    const instance = (name: string): Instance => ({ name, boot: 'abc', isOver: (each) => each !== name })
    const first = await openLocal(folder, {}, { instance: instance('run-1') })
    const token = await cutOff(t, first, '/nested/file')
    const other = await cutOff(t, first, '/nested/other')
    await first.close?.()
    t.equal(stagedIn(folder).length, 4, 'two files, and two records of where they are')
    const second = await openLocal(folder, {}, { instance: instance('run-2'), resumableUploads: async () => [token] })
    t.equal(stagedIn(folder).length, 2, 'the other upload is not resumed by any task')
    t.equal(await goOn(second, '/nested/other', other), 0)
    t.equal(await goOn(second, '/nested/file', token), half.length)
    t.ok(readFileSync(join(nested, 'file')).equals(data))
    const last = await cutOff(t, second, '/nested/last')
    await second.dropUpload?.(last)
    await second.close?.()
    t.same(stagedIn(folder), [])
    t.same(readdirSync(nested).sort(), ['file', 'other'])
  },
)
