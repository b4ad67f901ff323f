/** Faults between the SMB driver and Samba: cut and stalled connections, expired sessions, a full disk. */
import { execFile } from 'node:child_process'
import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'
import t from 'tap'
import type { SmbOptions } from '../../../drivers/smb/index.js'
import {
  at,
  bytesAt,
  chunks,
  endless,
  namesIn,
  put,
  refuses,
  source,
  textAt,
} from '../../driver-conformance/subject.js'
import { lacks } from '../../programs.js'
import { startCuttingProxy } from '../../servers/cutting-proxy.js'
import { sambaPrograms, startSamba } from '../../servers/samba.js'
import { openShare } from './mount.js'
import { until } from '../../until.js'

const run = promisify(execFile)
const mebibyte = 1024 * 1024

await t.test('SMB: faults', { skip: lacks(...sambaPrograms) }, async (t) => {
  const server = await startSamba()
  t.teardown(() => server.stop())
  const folder = async (name: string): Promise<string> => {
    await mkdir(join(server.folder, name))
    return join(server.folder, name)
  }
  const through = async (name: string, more: Partial<SmbOptions> = {}) => {
    const proxy = await startCuttingProxy(server.port)
    t.teardown(() => proxy.stop())
    const driver = await openShare(server, {
      address: `127.0.0.1:${proxy.port}`,
      root_folder_path: name,
      ...more,
    })
    return { proxy, driver }
  }
  /** Waits until the server has noticed a cut connection and cleaned up. */
  const settled = async (root: string, expected: readonly string[]): Promise<string[]> => {
    const names = async () => (await readdir(root)).sort()
    await until(async () => (await names()).length === expected.length)
    return names()
  }

  await t.test('a connection that is cut at any stage leaves the old file and no staged file', async (t) => {
    const root = await folder('cut')
    const { proxy, driver } = await through('cut')
    const old = Buffer.alloc(4 * mebibyte, 'old')
    await put(driver, '/file', old)
    for (const bytes of [1, 600, 1200, 2000, mebibyte, 3 * mebibyte, 9 * mebibyte]) {
      proxy.cut('up', bytes)
      const body = chunks(10, Buffer.alloc(mebibyte))
      await refuses(t, () => driver.write(at('/file'), body), 'unavailable', `a write, cut after ${bytes} bytes`)
      proxy.heal()
      t.ok((await bytesAt(driver, '/file')).equals(old), 'the old file is unchanged')
      t.same(await settled(root, ['file']), ['file'], 'no staged file is left')
    }
    proxy.cut('down', 2 * mebibyte)
    await refuses(t, () => bytesAt(driver, '/file'), 'unavailable', 'a read')
    proxy.cut('down', 1)
    await refuses(t, () => namesIn(driver, '/'), 'unavailable', 'a listing')
    await refuses(t, () => driver.stat(at('/file')), 'unavailable', 'stat')
    await refuses(t, async () => driver.move?.(at('/file'), at('/moved')), 'unavailable', 'a move')
    await refuses(t, () => driver.mkdir(at('/folder')), 'unavailable', 'mkdir')
    proxy.heal()
    t.same(await namesIn(driver, '/'), ['file'], 'the file is listed again')
    await driver.close?.()
    await until(() => proxy.open === 0)
    t.equal(proxy.open, 0, 'no connection is left')
  })

  await t.test('safe calls are repeated after a lost connection', async (t) => {
    await folder('again')
    const { proxy, driver } = await through('again')
    await put(driver, '/file', 'content')
    for (const call of [
      () => driver.stat(at('/file')),
      () => namesIn(driver, '/'),
      () => textAt(driver, '/file'),
      () => driver.usage?.(),
      () => driver.setAttributes?.(at('/file'), { modified: new Date(0) }),
    ]) {
      // Open connections break with their next bytes; new ones work.
      proxy.cutStanding()
      await call()
    }
    t.equal(await textAt(driver, '/file'), 'content')
    await driver.close?.()
  })

  await t.test('a call after an expired session opens a new one', async (t) => {
    await folder('session')
    const driver = await openShare(server, { root_folder_path: 'session' })
    await put(driver, '/file', 'content')
    const ends = async () => {
      await server.control('smbd', 'close-share', 'files')
      await pause(300)
    }
    for (const call of [
      () => put(driver, '/file', 'again'),
      () => driver.mkdir(at('/folder')),
      () => driver.move?.(at('/folder'), at('/moved')),
      () => driver.remove(at('/moved')),
      () => driver.stat(at('/file')),
      () => textAt(driver, '/file'),
      () => namesIn(driver, '/'),
    ]) {
      await ends()
      await call()
    }
    t.same(await namesIn(driver, '/'), ['file'])
    t.equal(await textAt(driver, '/file'), 'again')
    const reading = await driver.read(at('/file'))
    const handle = await driver.open?.(at('/file'), 'update')
    await ends()
    await refuses(t, async () => handle?.read(Buffer.alloc(10), 0), 'unavailable', 'a handle of the expired session')
    await handle?.close()
    reading.destroy()
    await driver.close?.()
  })

  await t.test(
    'a stall of five seconds is tolerated; an abort or closing the driver ends a stalled call',
    async (t) => {
      await folder('stall')
      const { proxy, driver } = await through('stall')
      await put(driver, '/file', 'content')
      proxy.stall()
      const waiting = Promise.all([textAt(driver, '/file'), put(driver, '/other', 'x'), namesIn(driver, '/')])
      await pause(5000)
      proxy.heal()
      t.equal((await waiting)[0], 'content')
      proxy.stall()
      for (const [what, call] of Object.entries({
        stat: (signal: AbortSignal) => driver.stat(at('/file'), { signal }),
        read: (signal: AbortSignal) => driver.read(at('/file'), undefined, { signal }),
        write: (signal: AbortSignal) => driver.write(at('/file'), source('new'), { signal }),
        mkdir: (signal: AbortSignal) => driver.mkdir(at('/folder'), { signal }),
        list: (signal: AbortSignal) => driver.pages(at('/'), { signal })[Symbol.asyncIterator]().next(),
      })) {
        await refuses(t, () => call(AbortSignal.timeout(100)), 'aborted', what)
      }
      const stalled = driver.stat(at('/file'))
      setTimeout(() => void driver.close?.(), 100)
      await refuses(t, () => stalled, 'aborted', 'a stalled call when the driver closes')
      await refuses(t, () => driver.stat(at('/file')), 'aborted', 'later calls')
      proxy.heal()
      await until(() => proxy.open === 0)
      t.equal(proxy.open, 0, 'no connection is left')
    },
  )

  await t.test('an abort ends a stalled upload, and the server keeps no staged file', async (t) => {
    const root = await folder('abort')
    const { proxy, driver } = await through('abort')
    const controller = new AbortController()
    const { source: body } = endless()
    const writing = driver.write(at('/file'), body, { signal: controller.signal })
    await pause(200)
    proxy.stall()
    controller.abort()
    await refuses(t, () => writing, 'aborted', 'the upload')
    proxy.heal()
    t.same(await settled(root, []), [])
    await driver.close?.()
  })

  await t.test('a server that is down is reported as unavailable', async (t) => {
    const own = await startSamba()
    const proxy = await startCuttingProxy(own.port)
    const driver = await openShare(own, { address: `127.0.0.1:${proxy.port}` })
    await put(driver, '/file', 'x')
    await proxy.stop()
    await refuses(t, () => driver.stat(at('/file')), 'unavailable', 'stat')
    await refuses(t, () => put(driver, '/file', 'y'), 'unavailable', 'write')
    await driver.close?.()
    await own.stop()
  })

  await t.test('altered messages are detected if the connection is signed or encrypted', async (t) => {
    await folder('changed')
    for (const protection of ['signed', 'encrypted'] as const) {
      const { proxy, driver } = await through('changed', { protection })
      await put(driver, '/file', 'content'.repeat(1000))
      proxy.garble()
      await refuses(t, () => textAt(driver, '/file'), 'unavailable', protection)
      proxy.heal()
      t.equal((await textAt(driver, '/file')).length, 7000)
      await driver.close?.()
    }
  })

  await t.test('a read-only share is reported as denied, and its files are unchanged', async (t) => {
    const root = await folder('closed')
    await writeFile(join(root, 'file'), 'old')
    // Root may write any file on disk, so the share itself is read-only.
    const readOnly = await startSamba({ share: ['read only = yes', `path = ${server.folder}`] })
    const driver = await openShare(readOnly, { root_folder_path: 'closed' })
    await refuses(t, () => put(driver, '/file', 'x'), 'denied', 'write')
    await refuses(t, () => put(driver, '/new', 'x'), 'denied', 'a new file')
    await refuses(t, () => driver.mkdir(at('/folder')), 'denied', 'mkdir')
    await refuses(t, () => driver.remove(at('/file')), 'denied', 'remove')
    await refuses(t, async () => driver.move?.(at('/file'), at('/moved')), 'denied', 'move')
    t.equal(await textAt(driver, '/file'), 'old')
    t.same(await readdir(root), ['file'])
    await driver.close?.()
    await readOnly.stop()
  })

  const needsRoot = process.getuid?.() === 0 ? false : 'only root can mount'
  await t.test('a full disk is reported as no_space, and the old file is unchanged', { skip: needsRoot }, async (t) => {
    const root = await folder('full')
    await run('mount', ['-t', 'tmpfs', '-o', 'size=4m', 'tmpfs', root])
    t.teardown(() => run('umount', ['-l', root]))
    const driver = await openShare(server, { root_folder_path: 'full' })
    await put(driver, '/file', 'old')
    await refuses(t, () => driver.write(at('/file'), chunks(8, Buffer.alloc(mebibyte))), 'no_space', 'write')
    t.equal(await textAt(driver, '/file'), 'old')
    t.same(await settled(root, ['file']), ['file'])
    await driver.close?.()
  })
})
