/** Large uploads to a Local storage whose disk fails, or whose staging folder is removed meanwhile. */
import { closeSync, existsSync, mkdirSync, openSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import t, { type Test } from 'tap'
import type { Upload } from '../../../src/contract/capabilities.js'
import { asyncSyscalls, syncSyscalls } from '../../../drivers/local/syscalls.js'
import { GatewayError } from '../../../src/base/errors.js'
import { at, refuses, source, type WritableDriver } from '../../driver-conformance/subject.js'
import { openLocal } from '../env.js'

const data = Buffer.alloc(3_000_000, 'data')

/** A body that fails after these bytes. */
function cutBody(bytes: Buffer): Readable {
  const pieces = function* () {
    yield bytes
    throw new GatewayError('unavailable')
  }
  return Readable.from(pieces(), { objectMode: false })
}

interface Mount {
  readonly folder: string
  readonly driver: WritableDriver
  readonly begin: (resume?: string) => Promise<Upload>
  /** Tokens that replaced the first one. */
  readonly replaced: string[]
}

async function mount(t: Test, options: { sync?: boolean } = {}): Promise<Mount> {
  const folder = t.testdir()
  const driver = (await openLocal(folder, options)) as WritableDriver
  t.teardown(() => driver.close?.())
  const replaced: string[] = []
  const begin = async (resume?: string) => {
    const replace = async (token: string) => void replaced.push(token)
    const upload = await driver.upload?.(at('/file'), { size: data.length, resumeToken: resume, replaceToken: replace })
    if (!upload) throw new Error('it keeps nothing')
    return upload
  }
  return { folder, driver, begin, replaced }
}

/** Staged files of the storage in this folder. */
function staged(folder: string): string[] {
  const staging = join(folder, '.tidegate-staging')
  if (!existsSync(staging)) return []
  return readdirSync(staging).flatMap((run) => readdirSync(join(staging, run)).map((name) => join(staging, run, name)))
}

/** Redirects the descriptor of this file to a device on which sync fails. */
function breakSync(file: string): void {
  const fd = readdirSync('/proc/self/fd').find((each) => {
    try {
      return readlinkSync(`/proc/self/fd/${each}`) === file
    } catch {
      return false
    }
  })
  closeSync(Number(fd))
  const taken = openSync('/dev/null', 'r+')
  if (taken !== Number(fd)) throw new Error('the number of the descriptor was not free')
}

const onLinux = process.platform === 'linux' ? false : 'descriptors cannot be told here'

await t.test('Local does not resume an upload after a failed sync', { skip: onLinux }, async (t) => {
  const { folder, begin, replaced } = await mount(t)
  const upload = await begin()
  await refuses(t, () => upload.write(cutBody(data.subarray(0, 1_000_000))), 'unavailable', 'the source fails')
  const [file = ''] = staged(folder)
  breakSync(file)
  await upload.close()
  t.same(replaced, [''], 'the token is revoked')
  t.same(staged(folder), [])
  t.equal((await begin(upload.token)).committedOffset, 0)
})

await t.test('Local discards an upload whose commit failed to sync', { skip: onLinux }, async (t) => {
  const { folder, begin, replaced } = await mount(t, { sync: true })
  const upload = await begin()
  await upload.write(Readable.from([data]))
  const [file = ''] = staged(folder)
  breakSync(file)
  await t.rejects(upload.commit())
  await upload.close()
  t.same(replaced, [''])
  t.same(staged(folder), [])
})

await t.test('Local revokes a token whose staged file is unusable', async (t) => {
  const { folder, begin, replaced } = await mount(t)
  const upload = await begin()
  await upload.close()
  const [file = ''] = staged(folder)
  rmSync(file)
  mkdirSync(file)
  const second = await begin(upload.token)
  t.same(replaced, [''], 'before a new upload begins')
  t.equal(second.committedOffset, 0, 'even if the staged file cannot be removed')
  await second.close()
})

await t.test('Local resumes an upload whose source failed', async (t) => {
  const { folder, begin, replaced } = await mount(t)
  const upload = await begin()
  await refuses(t, () => upload.write(cutBody(data.subarray(0, 1_000_000))), 'unavailable', 'the source fails')
  await upload.close()
  await upload.close()
  t.same(replaced, [])
  const second = await begin(upload.token)
  await second.write(Readable.from([data.subarray(second.committedOffset)]))
  await second.commit()
  await second.close()
  t.ok(readFileSync(join(folder, 'file')).equals(data))
})

await t.test('Local reports a staged file that was removed before publication as busy', async (t) => {
  const { folder, driver, begin } = await mount(t)
  const tidyUp = async () => rmSync(join(folder, '.tidegate-staging'), { recursive: true })
  const upload = await begin()
  await upload.write(Readable.from([data]))
  await tidyUp()
  await refuses(t, () => upload.commit(), 'busy', 'an upload')
  await upload.close()
  for (const createOnly of [false, true]) {
    const writing = () => driver.write(at('/file'), source('text'), { createOnly, beforePublish: tidyUp })
    await refuses(t, writing, 'busy', 'a write')
  }
  const again = await begin(upload.token)
  t.equal(again.committedOffset, 0)
  await again.write(Readable.from([data]))
  await again.commit()
  await again.close()
  t.ok(readFileSync(join(folder, 'file')).equals(data))
})

void t.test('without hard links, a reserved name whose rename fails is free again', async (t) => {
  let renames = false
  const fail = (code: string) => {
    throw Object.assign(new Error(code), { code })
  }
  for (const calls of [syncSyscalls, asyncSyscalls]) {
    const rename = calls.rename.bind(calls)
    t.capture(calls, 'link', () => fail('EPERM'))
    t.capture(calls, 'rename', (from: string, to: string) => (renames ? rename(from, to) : fail('EIO')))
  }
  const { folder, driver } = await mount(t)
  const write = () => driver.write(at('/file'), source('text'), { createOnly: true })
  await t.rejects(write())
  t.notOk(existsSync(join(folder, 'file')))
  renames = true
  await write()
  t.equal(readFileSync(join(folder, 'file'), 'utf8'), 'text')
  await refuses(t, write, 'exists', 'a name that is taken')
  t.equal(readFileSync(join(folder, 'file'), 'utf8'), 'text')
})
