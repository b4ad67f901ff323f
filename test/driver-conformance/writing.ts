/**
 * The contract of `write()`, `mkdir()`, `remove()`, `removeTree()` and `setAttributes()`. A failed write changes
 * nothing.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { GatewayError } from '../../src/base/errors.js'
import { byteSource } from '../../src/contract/sources.js'
import { countBytes } from '../../src/storage/transfer-meter.js'
import {
  at,
  bytesAt,
  chunks,
  endless,
  listed,
  makeFolder,
  namesIn,
  put,
  missesParent,
  refuses,
  source,
  textAt,
  without,
  type Run,
} from './subject.js'

export async function writingTests(run: Run): Promise<void> {
  await run('write() resolves to the same entry as stat()', async (t, { driver }) => {
    const entry = await put(driver, '/file', 'hello')
    t.same(entry, await driver.stat(at('/file')))
    t.equal(await textAt(driver, '/file'), 'hello')
    const again = await put(driver, '/file', 'hello world')
    t.same(again, await driver.stat(at('/file')))
    t.equal(await textAt(driver, '/file'), 'hello world')
    await put(driver, '/file', 'short')
    t.equal(await textAt(driver, '/file'), 'short', 'no bytes of a longer file remain')
  })

  await run('write() accepts a body that is in memory, as a new file and over an old one', async (t, { driver }) => {
    for (const text of ['a body that is in memory', '', 'shorter', 'x'.repeat(65_536)]) {
      const entry = await driver.write(at('/memory'), byteSource(Buffer.from(text)))
      t.equal(entry.size, text.length)
      t.same(entry, await driver.stat(at('/memory')))
      t.equal(await textAt(driver, '/memory'), text)
    }
    let size = -1
    const beforePublish = async () => {
      ;({ size } = await driver.stat(at('/memory')))
      throw new GatewayError('precondition_failed')
    }
    const refused = driver.write(at('/memory'), byteSource(Buffer.from('new')), { beforePublish })
    await t.rejects(refused, { code: 'precondition_failed' })
    t.equal(size, 65_536)
    t.equal((await driver.stat(at('/memory'))).size, 65_536, 'the old file is unchanged')
  })

  await run(
    'mkdir() in a folder that is created meanwhile succeeds, or rejects with parent_missing',
    async (t, { driver }) => {
      for (let round = 0; round < 20; round++) {
        const [parent, child] = [at(`/made-${round}`), at(`/made-${round}/child`)]
        const [, outcome] = await Promise.allSettled([driver.mkdir(parent), driver.mkdir(child)])
        if (outcome.status === 'rejected') t.match(outcome.reason, { code: 'parent_missing' })
      }
    },
  )

  await run('write() accepts bodies of many chunks, of known and unknown size', async (t, { driver, traits }) => {
    const chunk = Buffer.alloc(10_007, 'tide')
    const body = chunks(700, chunk)
    const whole = Buffer.concat(Array.from({ length: 700 }, () => chunk))
    t.equal((await driver.write(at('/known'), body)).size, whole.length)
    t.ok((await bytesAt(driver, '/known')).equals(whole))
    if (traits.writeNeeds !== 'stream') return
    const unknown = chunks(700, chunk)
    t.equal((await driver.write(at('/unknown'), { ...unknown, size: undefined })).size, whole.length)
    t.ok((await bytesAt(driver, '/unknown')).equals(whole))
  })

  await run('the revision changes with the content even if size and time do not', async (t, { driver }) => {
    const first = await put(driver, '/file', 'aaaa')
    if (first.revision === undefined) {
      t.pass('revision', { skip: 'this driver tells no revisions' })
      return
    }
    const second = await driver.write(at('/file'), source('bbbb'), { modified: first.modified })
    t.not(second.revision, first.revision)
    t.equal((await driver.stat(at('/file'))).revision, second.revision, 'unchanged while the file is')
  })

  await run('write() stores modification time and mode', async (t, { driver, traits }) => {
    if (!Number.isFinite(traits.timeStep)) {
      t.pass('times', { skip: 'this driver keeps no times' })
      return
    }
    for (const time of ['2001-02-03T04:05:06.789Z', '1999-12-31T23:59:59.999Z', '2031-01-01T00:00:00.001Z']) {
      const modified = new Date(time)
      const { modified: kept } = await driver.write(at('/file'), source('x'), { modified })
      t.ok(
        Math.abs(kept.getTime() - modified.getTime()) < traits.timeStep,
        `${time} is stored as ${kept.toISOString()}`,
      )
    }
    const first = await driver.write(at('/mode'), source('x'), { mode: 0o640 })
    if (first.mode === undefined) {
      t.notOk(driver.setAttributes && traits.keeps.includes('mode'), 'only a visible mode may be declared as stored')
      return
    }
    t.equal(first.mode, 0o640)
    t.equal((await put(driver, '/mode', 'y')).mode, 0o640, 'replacing a file keeps its mode')
  })

  await run('write() rejects for folders, the root and missing parents', async (t, subject) => {
    const { driver, traits } = subject
    await makeFolder(subject, '/folder')
    await put(driver, '/file', 'hello')
    await refuses(t, () => put(driver, '/folder', 'x'), 'is_folder', 'over a folder')
    await refuses(t, () => put(driver, '/', 'x'), 'is_folder', 'over the root')
    await missesParent(t, subject, () => put(driver, '/no/file', 'x'))
    if (traits.emptyFolders) {
      await refuses(t, () => put(driver, '/file/below', 'x'), ['parent_missing', 'not_folder'], 'below a file')
    }
    t.same(await namesIn(driver, '/'), ['file', 'folder'])
    t.equal(await textAt(driver, '/file'), 'hello')
  })

  await run(
    'a body of another length than announced is rejected with invalid, and the old file is unchanged',
    async (t, { driver }) => {
      await put(driver, '/file', 'old')
      for (const path of ['/file', '/new'].map(at)) {
        await refuses(t, () => driver.write(path, source('12345', 6)), 'invalid', `${path} too short`)
        await refuses(t, () => driver.write(path, source('12345', 4)), 'invalid', `${path} too long`)
        await refuses(t, () => driver.write(path, source('', 1)), 'invalid', `${path} empty`)
        await refuses(t, () => driver.write(path, source('1', 0)), 'invalid', `${path} not empty`)
      }
      t.equal(await textAt(driver, '/file'), 'old')
      t.same(await namesIn(driver, '/'), ['file'])
    },
  )

  await run('after a body that fails, only the old file exists', async (t, { driver }) => {
    await put(driver, '/file', 'old')
    for (const path of ['/file', '/new'].map(at)) {
      const { source: body, body: stream } = endless(1_000_000)
      setTimeout(() => stream.destroy(new GatewayError('unavailable')), 20)
      await refuses(t, () => driver.write(path, body), 'unavailable', `${path}: a GatewayError is passed on`)
      const cut = endless(1_000_000)
      setTimeout(() => cut.body.destroy(), 20)
      await refuses(t, () => driver.write(path, cut.source), ['aborted', 'invalid'], `${path}: ended early`)
      const broken = endless(1_000_000)
      setTimeout(() => broken.body.destroy(new Error('boom')), 20)
      await refuses(t, () => driver.write(path, broken.source), 'internal', `${path}: any other error`)
      const never = async () => Promise.reject(new GatewayError('not_found'))
      await refuses(
        t,
        () => driver.write(path, { size: 1, rereadable: false, read: never }),
        'not_found',
        'a source that cannot be read',
      )
    }
    t.equal(await textAt(driver, '/file'), 'old')
    t.same(await namesIn(driver, '/'), ['file'])
  })

  await run('after an abort during a write, only the old file exists', async (t, { driver }) => {
    await put(driver, '/file', 'old')
    for (const path of ['/file', '/new'].map(at)) {
      const controller = new AbortController()
      const { source: body, body: stream, begun } = endless(10_000_000)
      const { signal } = controller
      void begun.then(() => setTimeout(() => controller.abort(), 20))
      await refuses(t, () => driver.write(path, body, { signal }), 'aborted', path)
      t.ok(stream.destroyed, 'the body is destroyed')
    }
    t.equal(await textAt(driver, '/file'), 'old')
    t.same(await namesIn(driver, '/'), ['file'])
  })

  await run('a file is not visible before it is complete', async (t, { driver }) => {
    await put(driver, '/file', 'old')
    const { source: body, body: stream } = endless(100_001)
    const writing = driver.write(at('/file'), body)
    await pause(20)
    t.equal(await textAt(driver, '/file'), 'old')
    t.same(await namesIn(driver, '/'), ['file'])
    stream.push('!')
    stream.push(null)
    await writing
    t.equal((await driver.stat(at('/file'))).size, 100_001)
    t.same(await namesIn(driver, '/'), ['file'])
  })

  await run(
    'beforePublish is called once after all bytes, and its rejection prevents the change',
    async (t, { driver }) => {
      await put(driver, '/file', 'old')
      let calls = 0
      let read = 0
      const body = source('new bytes')
      const counted = async () => countBytes(await body.read(), (count) => (read += count))
      await driver.write(
        at('/file'),
        { ...body, read: counted },
        {
          beforePublish: async () => {
            calls++
            t.equal(read, 9, 'every byte was read')
            t.equal(await textAt(driver, '/file'), 'old', 'the old file still exists')
          },
        },
      )
      t.equal(calls, 1)
      t.equal(await textAt(driver, '/file'), 'new bytes')
      const beforePublish = async () => Promise.reject(new GatewayError('precondition_failed'))
      for (const path of ['/file', '/new'].map(at)) {
        await refuses(t, () => driver.write(path, source('x'), { beforePublish }), 'precondition_failed', path)
      }
      let late = 0
      const count = async () => {
        late++
      }
      await refuses(t, () => driver.write(at('/file'), source('x', 2), { beforePublish: count }), 'invalid', 'short')
      t.equal(late, 0, 'a failed body is never published')
      t.equal(await textAt(driver, '/file'), 'new bytes')
      t.same(await namesIn(driver, '/'), ['file'])
    },
  )

  await run('concurrent writes of one file leave the content of one of them', async (t, { driver }) => {
    for (let round = 0; round < 3; round++) {
      const bodies = ['a', 'b', 'c'].map((letter) => Buffer.alloc(400_000 + round, letter))
      await Promise.all(bodies.map((body) => driver.write(at('/file'), chunks(4, body))))
      const found = await bytesAt(driver, '/file')
      t.equal(found.length, 4 * (400_000 + round))
      t.equal(new Set(found).size, 1, 'all bytes are of one body')
    }
    t.same(await namesIn(driver, '/'), ['file'])
  })

  await run('of concurrent writes with createOnly, exactly one succeeds', async (t, { driver }) => {
    const create = (path: string, text: string) => driver.write(at(path), source(text), { createOnly: true })
    t.same(await create('/file', 'first'), await driver.stat(at('/file')))
    await refuses(t, () => create('/file', 'second'), 'exists', 'a name that is taken')
    for (let round = 0; round < 5; round++) {
      const path = `/race-${round}`
      const tries = await Promise.allSettled(['a', 'b', 'c', 'd'].map((text) => create(path, text)))
      const won = tries.filter((each) => each.status === 'fulfilled')
      t.equal(won.length, 1, 'one of four')
      for (const each of tries) if (each.status === 'rejected') t.match(each.reason, { code: 'exists' })
      t.equal((await textAt(driver, path)).length, 1)
    }
    t.equal(await textAt(driver, '/file'), 'first')
    t.equal((await listed(driver, '/')).length, 6)
  })

  await run('mkdir() creates one folder', async (t, subject) => {
    const { driver, traits } = subject
    await makeFolder(subject, '/one')
    await makeFolder(subject, '/one/two')
    t.equal((await driver.stat(at('/one/two'))).kind, 'folder')
    await put(driver, '/file', 'x')
    await refuses(t, () => driver.mkdir(at('/one')), 'exists', 'over a folder')
    await refuses(t, () => driver.mkdir(at('/file')), 'exists', 'over a file')
    await refuses(t, () => driver.mkdir(at('/')), 'exists', 'the root')
    // Without empty folders, the core makes all other checks.
    if (!traits.emptyFolders) return
    await refuses(t, () => driver.mkdir(at('/no/three')), 'parent_missing', 'without a parent')
    await refuses(t, () => driver.mkdir(at('/file/four')), ['parent_missing', 'not_folder'], 'below a file')
    const tries = await Promise.allSettled([1, 2, 3].map(() => driver.mkdir(at('/race'))))
    t.equal(tries.filter((each) => each.status === 'fulfilled').length, 1, 'one of three succeeds')
  })

  await run('remove() removes a file or an empty folder', async (t, { driver, traits }) => {
    await driver.mkdir(at('/folder'))
    await put(driver, '/folder/file', 'x')
    await refuses(t, () => driver.remove(at('/folder')), 'not_empty', 'a folder that is not empty')
    t.equal(await textAt(driver, '/folder/file'), 'x')
    await driver.remove(at('/folder/file'))
    if (traits.emptyFolders) await driver.remove(at('/folder'))
    await refuses(t, () => driver.remove(at('/folder')), 'not_found', 'a missing folder')
    await refuses(t, () => driver.remove(at('/')), ['denied', 'not_empty'], 'the root')
    t.same(await listed(driver, '/'), [])
  })

  await run(
    'removeTree() removes a folder with all its members',
    async (t, { driver }) => {
      for (const folder of ['/tree', '/tree/a', '/tree/a/b', '/tree/c']) await driver.mkdir(at(folder))
      for (const file of ['/tree/1', '/tree/a/2', '/tree/a/b/3', '/beside']) await put(driver, file, 'x')
      const removeTree = async (path: string) => driver.removeTree?.(at(path))
      await removeTree('/tree')
      t.same(await namesIn(driver, '/'), ['beside'])
      await removeTree('/beside')
      await refuses(t, () => removeTree('/tree'), 'not_found', 'a missing folder')
      await refuses(t, () => removeTree('/'), 'denied', 'the root')
    },
    without('removeTree'),
  )

  await run(
    'setAttributes() changes time and mode only',
    async (t, { driver, traits }) => {
      await put(driver, '/file', 'hello')
      const set = async (path: string, modified?: Date, mode?: number) =>
        driver.setAttributes?.(at(path), { modified, mode })
      const modified = new Date('2011-11-11T11:11:11.111Z')
      await set('/file', modified, 0o600)
      const entry = await driver.stat(at('/file'))
      t.ok(Math.abs(entry.modified.getTime() - modified.getTime()) < traits.timeStep)
      if (entry.mode !== undefined || traits.keeps.includes('mode')) t.equal(entry.mode, 0o600)
      await set('/file', undefined, 0o644)
      t.same((await driver.stat(at('/file'))).modified, entry.modified, 'an absent attribute is unchanged')
      t.equal(await textAt(driver, '/file'), 'hello')
      await refuses(t, () => set('/none', modified), 'not_found', 'a missing file')
      // The core stores the folder times of a driver without empty folders.
      if (!traits.emptyFolders) return
      await driver.mkdir(at('/folder'))
      await set('/folder', modified)
      t.ok(Math.abs((await driver.stat(at('/folder'))).modified.getTime() - modified.getTime()) < traits.timeStep)
    },
    without('setAttributes'),
  )
}
