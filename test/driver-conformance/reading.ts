/** The contract of `stat()`, `read()` and `usage()`: ranges, missing paths and aborts. No stream is left open. */
import { readdirSync } from 'node:fs'
import type { Readable } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import type { Test } from 'tap'
import type { Driver } from '../../src/contract/driver.js'
import { at, bytesAt, makeFolder, put, refuses, textAt, without, type Run } from './subject.js'

export async function readingTests(run: Run): Promise<void> {
  await run('the root is an empty folder', async (t, { driver }) => {
    const root = await driver.stat(at('/'))
    t.equal(root.kind, 'folder')
    t.equal(root.size, 0)
    for await (const page of driver.pages(at('/'))) t.same(page, [], 'it is empty')
  })

  await run('stat() returns kind, size and name', async (t, subject) => {
    const { driver, traits } = subject
    const before = Date.now()
    await put(driver, '/file', 'hello')
    await makeFolder(subject, '/folder')
    const file = await driver.stat(at('/file'))
    t.match(file, { name: 'file', kind: 'file', size: 5 })
    if (Number.isFinite(traits.timeStep)) {
      t.ok(Math.abs(file.modified.getTime() - before) < traits.timeStep + 60_000, 'modified is about now')
    }
    t.match(await driver.stat(at('/folder')), { name: 'folder', kind: 'folder', size: 0 })
  })

  await run('calls for a missing path reject with not_found', async (t, { driver }) => {
    await put(driver, '/file', 'hello')
    for (const path of ['/no', '/no/where', '/file/below'].map(at)) {
      await refuses(t, () => driver.stat(path), 'not_found', `stat ${path}`)
      await refuses(t, () => driver.read(path), 'not_found', `read ${path}`)
      await refuses(t, () => driver.remove(path), 'not_found', `remove ${path}`)
    }
    await refuses(t, () => driver.pages(at('/no'))[Symbol.asyncIterator]().next(), 'not_found', 'list')
  })

  await run('read() of a folder rejects, and its stream never fails instead', async (t, subject) => {
    const { driver } = subject
    await makeFolder(subject, '/folder')
    await refuses(t, () => driver.read(at('/folder')), 'is_folder', 'read')
    await refuses(t, () => driver.read(at('/')), 'is_folder', 'read of the root')
  })

  await run('read() returns exactly the bytes of the range', async (t, { driver }) => {
    await put(driver, '/file', '0123456789')
    t.equal(await textAt(driver, '/file'), '0123456789')
    t.equal(await textAt(driver, '/file', 0), '0123456789', 'from the start')
    t.equal(await textAt(driver, '/file', 0, 1), '0')
    t.equal(await textAt(driver, '/file', 3, 4), '3456')
    t.equal(await textAt(driver, '/file', 9), '9', 'the last byte')
    t.equal(await textAt(driver, '/file', 7, 100), '789', 'beyond the end')
    t.equal(await textAt(driver, '/file', 10), '', 'at the end')
    t.equal(await textAt(driver, '/file', 1_000_000), '', 'after the end')
    t.equal(await textAt(driver, '/file', 4, 0), '', 'a length of 0')
  })

  await run('ranges of a large file are complete', async (t, { driver }) => {
    const data = Buffer.alloc(3_000_000, 'abcdefghijklm')
    await put(driver, '/file', data)
    t.ok((await bytesAt(driver, '/file')).equals(data), 'all of it')
    t.ok((await bytesAt(driver, '/file', 524_287, 1_048_578)).equals(data.subarray(524_287, 1_572_865)), 'a part')
    t.ok((await bytesAt(driver, '/file', 2_999_990)).equals(data.subarray(2_999_990)), 'the end')
  })

  await run('an empty file is read as an empty stream', async (t, { driver }) => {
    const entry = await put(driver, '/empty', '')
    t.equal(entry.size, 0)
    t.equal(await textAt(driver, '/empty'), '')
    t.equal(await textAt(driver, '/empty', 5), '')
  })

  await run('closing unread streams leaves no descriptor open', async (t, { driver }) => {
    await put(driver, '/file', Buffer.alloc(5_000_000))
    await leavesNothingOpen(t, () => driver.read(at('/file')))
  })

  await run('calls with an aborted signal reject with aborted', async (t, { driver }) => {
    await put(driver, '/file', Buffer.alloc(5_000_000))
    const signal = AbortSignal.abort()
    await refuses(t, () => driver.stat(at('/file'), { signal }), 'aborted', 'stat')
    await refuses(t, () => driver.read(at('/file'), undefined, { signal }), 'aborted', 'read')
    await refuses(t, () => driver.mkdir(at('/new'), { signal }), 'aborted', 'mkdir')
    await refuses(t, () => driver.remove(at('/file'), { signal }), 'aborted', 'remove')
    const listing = driver.pages(at('/'), { signal })[Symbol.asyncIterator]()
    await refuses(t, () => listing.next(), 'aborted', 'list')
    await endsWithSignal(t, driver, '/file')
    t.equal((await driver.stat(at('/file'))).size, 5_000_000, 'the file was not removed')
  })

  await run(
    'used and free bytes of usage() do not exceed the total',
    async (t, { driver }) => {
      const usage = await driver.usage?.()
      if (!usage) return
      t.ok(usage.total > 0)
      t.ok(usage.used >= 0 && usage.free >= 0 && usage.used + usage.free <= usage.total, 'parts of a whole', usage)
      const { files } = usage
      if (files) t.ok(files.free >= 0 && files.free <= files.total, 'of the files too', files)
    },
    without('usage'),
  )
}

/** Expects that streams that are closed unread, over many calls of `read`, leave no descriptor open. */
export async function leavesNothingOpen(t: Test, read: () => Promise<Readable>): Promise<void> {
  if (process.platform !== 'linux') {
    t.pass('counting', { skip: 'descriptors are counted in /proc' })
    return
  }
  const count = () => readdirSync('/proc/self/fd').length
  const streams: Readable[] = []
  const readMany = async () => {
    for (let index = 0; index < 16; index++) {
      const stream = await read()
      streams.push(stream)
      if (index % 2 === 0) stream.once('readable', () => stream.destroy())
      else stream.destroy()
    }
  }
  // A driver may keep connections for later calls, and open one more while they are busy; a leak grows in every round.
  const counts: number[] = []
  const isStill = () => counts.length > 0 && count() <= (counts.at(-1) ?? 0)
  for (let round = 0; round < 5 && !isStill(); round++) {
    if (round > 0) {
      await pause(100)
      counts.push(count())
    }
    await readMany()
    // Streams that share a descriptor may still be closing.
    const isLeft = () => streams.some(({ closed }) => !closed) || (round > 0 && !isStill())
    for (let tries = 0; tries < 100 && isLeft(); tries++) await pause(10)
  }
  t.ok(isStill(), `${count()} open, after the rounds before ${counts.join(', ')}`)
}

/** Expects that an abort ends a stream of this file. */
export async function endsWithSignal(t: Test, driver: Driver, path: string): Promise<void> {
  const controller = new AbortController()
  const stream = await driver.read(at(path), undefined, { signal: controller.signal })
  const ended = new Promise((resolve) => stream.once('error', resolve))
  controller.abort()
  await ended
  t.ok(stream.destroyed, 'an abort ends the stream')
}
