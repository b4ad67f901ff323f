/** The contract of `open()`: reads and writes at any position, and changes that are published by a commit. */
import type { OpenFile, OpenMode, OpenOptions } from '../../src/contract/capabilities.js'
import { GatewayError } from '../../src/base/errors.js'
import {
  at,
  bytesAt,
  makeFolder,
  namesIn,
  put,
  missesParent,
  refuses,
  textAt,
  without,
  type Run,
  type WritableDriver,
} from './subject.js'

async function opened(
  driver: WritableDriver,
  path: string,
  mode: OpenMode,
  options?: OpenOptions,
): Promise<Required<OpenFile>> {
  const handle = await driver.open?.(at(path), mode, options)
  if (!handle) throw new GatewayError('unsupported')
  return handle as Required<OpenFile>
}

/** Commits an 'update' that is spooled; one in place needs no commit. */
async function commitIfStaged(handle: OpenFile): Promise<void> {
  await handle.commit?.()
}

export async function handleTests(run: Run): Promise<void> {
  const lacks = without('open')

  await run(
    'open(read) reads at any position into the given buffer',
    async (t, { driver }) => {
      const data = Buffer.from(Array.from({ length: 300_000 }, (_, index) => index % 251))
      await put(driver, '/file', data)
      const handle = await opened(driver, '/file', 'read')
      t.same(handle.entry, await driver.stat(at('/file')))
      const buffer = Buffer.alloc(200_000)
      t.equal(await handle.read(buffer.subarray(0, 10), 100), 10)
      t.ok(buffer.subarray(0, 10).equals(data.subarray(100, 110)))
      t.equal(await handle.read(buffer, 50_000), 200_000, 'it fills the buffer')
      t.ok(buffer.equals(data.subarray(50_000, 250_000)))
      t.equal(await handle.read(buffer, 299_990), 10, 'fewer bytes at the end only')
      t.equal(await handle.read(buffer, 300_000), 0, 'no bytes at the end')
      t.equal(await handle.read(buffer, 9_000_000), 0, 'no bytes after it')
      const parts = Array.from({ length: 20 }, (_, index) => ({ index, into: Buffer.alloc(10_000) }))
      await Promise.all(parts.map(({ index, into }) => handle.read(into, index * 10_000)))
      t.ok(Buffer.concat(parts.map(({ into }) => into)).equals(data.subarray(0, 200_000)), 'concurrent reads')
      await handle.close()
      await handle.close()
    },
    lacks,
  )

  await run(
    'open() rejects for missing files, folders, missing parents and taken names',
    async (t, subject) => {
      const { driver } = subject
      await makeFolder(subject, '/folder')
      await put(driver, '/file', 'x')
      for (const mode of ['read', 'update'] as const) {
        await refuses(t, () => opened(driver, '/none', mode), 'not_found', `${mode} of a missing file`)
        await refuses(t, () => opened(driver, '/folder', mode), 'is_folder', `${mode} of a folder`)
      }
      await refuses(t, () => opened(driver, '/folder', 'replace'), 'is_folder', 'replace of a folder')
      await missesParent(t, subject, () => opened(driver, '/no/file', 'replace'))
      await refuses(t, () => opened(driver, '/file', 'replace', { createOnly: true }), 'exists', 'createOnly')
      t.same(await namesIn(driver, '/'), ['file', 'folder'])
    },
    lacks,
  )

  await run(
    'open(update) changes a file in place',
    async (t, { driver }) => {
      const before = await put(driver, '/file', '0123456789')
      const handle = await opened(driver, '/file', 'update')
      await handle.write([Buffer.from('ab'), Buffer.from('cd')], 2)
      await handle.write([Buffer.from('end')], 12)
      const buffer = Buffer.alloc(20)
      t.equal(await handle.read(buffer, 0), 15, 'it reads what was written')
      await commitIfStaged(handle)
      await handle.close()
      t.ok((await bytesAt(driver, '/file')).equals(Buffer.from('01abcd6789\0\0end')), 'a gap is zeros')
      const after = await driver.stat(at('/file'))
      if (before.revision !== undefined) t.not(after.revision, before.revision)
      const shorter = await opened(driver, '/file', 'update')
      await shorter.truncate(4)
      await shorter.sync()
      await commitIfStaged(shorter)
      await shorter.close()
      t.equal(await textAt(driver, '/file'), '01ab')
    },
    lacks,
  )

  await run(
    'open(replace) publishes nothing until commit',
    async (t, { driver }) => {
      await put(driver, '/file', 'old')
      for (const path of ['/file', '/new']) {
        const handle = await opened(driver, path, 'replace', { readable: true })
        t.equal(handle.entry.size, 0)
        await handle.write([Buffer.from('world')], 6)
        await handle.write([Buffer.from('hello ')], 0)
        const buffer = Buffer.alloc(20)
        t.equal(await handle.read(buffer, 0), 11)
        t.same(await namesIn(driver, '/'), ['file'], 'the file is not visible')
        if (path === '/file') t.equal(await textAt(driver, '/file'), 'old')
        const modified = new Date(1_234_567_890_000)
        const entry = await handle.commit({ modified, mode: 0o600 })
        t.match(entry, { size: 11, modified })
        t.same(await driver.stat(at(path)), entry)
        await handle.close()
        t.equal(await textAt(driver, path), 'hello world')
        t.same(await driver.stat(at(path)), entry, 'close() changes nothing')
      }
    },
    lacks,
  )

  await run(
    'open(replace) changes nothing if it is closed without commit',
    async (t, { driver }) => {
      await put(driver, '/file', 'old')
      for (const path of ['/file', '/new']) {
        const handle = await opened(driver, path, 'replace')
        await handle.write([Buffer.alloc(100_000)], 0)
        await handle.close()
      }
      t.equal(await textAt(driver, '/file'), 'old')
      t.same(await namesIn(driver, '/'), ['file'])
    },
    lacks,
  )

  await run(
    'open(replace) calls beforePublish once, whose rejection prevents the change',
    async (t, { driver }) => {
      await put(driver, '/file', 'old')
      const beforePublish = async () => Promise.reject(new GatewayError('locked'))
      const refused = await opened(driver, '/file', 'replace', { beforePublish })
      await refused.write([Buffer.from('new')], 0)
      await refuses(t, () => refused.commit(), 'locked', 'commit')
      await refused.close()
      t.equal(await textAt(driver, '/file'), 'old')
      let calls = 0
      const counted = await opened(driver, '/file', 'replace', {
        beforePublish: async () => {
          calls++
        },
      })
      t.equal(calls, 0)
      await counted.write([Buffer.from('new')], 0)
      await counted.commit()
      await counted.close()
      t.equal(calls, 1)
      t.equal(await textAt(driver, '/file'), 'new')
    },
    lacks,
  )

  await run(
    'of two handles with createOnly, the second commit rejects with exists',
    async (t, { driver }) => {
      const handles = await Promise.all([1, 2].map(() => opened(driver, '/file', 'replace', { createOnly: true })))
      const [first, second] = handles
      if (!first || !second) return
      await first.write([Buffer.from('first')], 0)
      await first.commit()
      await refuses(t, () => second.commit(), 'exists', 'commit')
      await Promise.all(handles.map((handle) => handle.close()))
      t.equal(await textAt(driver, '/file'), 'first')
      t.same(await namesIn(driver, '/'), ['file'])
    },
    lacks,
  )
}
