/** The WebDAV driver on Apache's mod_dav. */
import { randomBytes, randomUUID } from 'node:crypto'
import { chmod, mkdir, readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { webdavFields, webdavType, type WebdavOptions } from '../../../drivers/webdav/index.js'
import type { DriverEnv } from '../../../src/contract/driver-env.js'
import type { GatewayError } from '../../../src/base/errors.js'
import { checkOptions } from '../../../src/mounts/fields.js'
import { conformance } from '../../driver-conformance/driver.js'
import { at, bytesAt, namesIn, put, refuses, textAt, type WritableDriver } from '../../driver-conformance/subject.js'
import { lacks } from '../../programs.js'
import { apacheAccount, apachePrograms, startApacheDav } from '../../servers/apache-dav.js'
import { startCuttingProxy } from '../../servers/cutting-proxy.js'
import { testEnv } from '../env.js'
import { until } from '../../until.js'

void t.test('WebDAV', { skip: lacks(...apachePrograms) }, async (t) => {
  const server = await startApacheDav()
  t.teardown(() => server.stop())
  const open = async (more: Partial<WebdavOptions> = {}, env: Partial<DriverEnv> = {}) => {
    const options = { ...apacheAccount, address: `http://127.0.0.1:${server.port}/digest`, ...more }
    return (await webdavType.open(
      checkOptions(webdavFields, { root_folder_path: '/', ...options }),
      testEnv(env),
    )) as WritableDriver
  }
  const folder = async (): Promise<string> => {
    const name = randomUUID()
    await mkdir(join(server.files, name))
    await chmod(join(server.files, name), 0o777)
    return name
  }

  for (const way of ['digest', 'basic'] as const) {
    await t.test(`WebDAV passes the conformance suite with ${way} authentication`, async (t) => {
      await conformance(t, {
        type: webdavType,
        many: way === 'digest' ? 1200 : 100,
        open: async () => {
          const name = await folder()
          return {
            driver: await open({ address: `http://127.0.0.1:${server.port}/${way}`, root_folder_path: `/${name}` }),
            dispose: () => rm(join(server.files, name), { recursive: true, force: true }),
          }
        },
      })
    })
  }

  await t.test('WebDAV leaves no staged file after writes, copies and moves', async (t) => {
    const name = await folder()
    const driver = await open({ root_folder_path: `/${name}` })
    await put(driver, '/file', 'old')
    await put(driver, '/file', 'new')
    await driver.copy?.(at('/file'), at('/copy'))
    await driver.move?.(at('/copy'), at('/file'))
    t.same(await readdir(join(server.files, name)), ['file'])
    t.equal(await readFile(join(server.files, name, 'file'), 'utf8'), 'new')
    await driver.close?.()
  })

  await t.test('WebDAV answers a stale challenge without a failed upload', async (t) => {
    const name = await folder()
    for (const way of ['digest', 'basic']) {
      const address = `http://127.0.0.1:${server.port}/${way}`
      const driver = await open({ address, username: 'plain', root_folder_path: `/${name}` })
      await put(driver, '/file', 'first')
      await new Promise((resolve) => setTimeout(resolve, 2500))
      const writing = [1, 2, 3].map((index) => put(driver, `/file-${index}`, 'more'))
      await Promise.all(writing)
      t.equal(await textAt(driver, '/file-3'), 'more')
      await driver.close?.()
    }
  })

  await t.test('WebDAV verifies certificates unless the option disables it', async (t) => {
    const name = await folder()
    const address = `https://127.0.0.1:${server.tlsPort}/basic`
    await refuses(t, () => open({ address, root_folder_path: `/${name}` }), 'unavailable', 'a self-signed certificate')
    const driver = await open({ address, root_folder_path: `/${name}`, tls_insecure_skip_verify: true })
    const data = randomBytes(3_000_000)
    await put(driver, '/file', data)
    t.ok((await bytesAt(driver, '/file', 1_000_000, 1_000_000)).equals(data.subarray(1_000_000, 2_000_000)))
    await driver.close?.()
  })

  await t.test('WebDAV reports wrong options without secrets', async (t) => {
    const wrong = [{ password: 'the wrong word' }, { username: 'nobody here' }]
    for (const over of wrong) {
      const error = await open(over).then(
        () => undefined,
        (reason: unknown) => reason as GatewayError,
      )
      t.equal(error?.code, 'denied')
      t.notMatch(
        `${String(error)} ${String(error?.cause)} ${JSON.stringify(error?.cause)}`,
        /wrong word|p.ss:word|nobody/,
      )
    }
    await refuses(t, () => open({ root_folder_path: '/missing' }), 'invalid', 'a missing root')
    const moved = `http://127.0.0.1:${server.port}/moved`
    const driver = await open({ address: moved, root_folder_path: `/${await folder()}` })
    await put(driver, '/file', 'through a redirect')
    t.equal(await textAt(driver, '/file'), 'through a redirect')
    await driver.close?.()
  })

  await t.test('WebDAV removes staged files of dead instances, and not those of other running ones', async (t) => {
    const name = await folder()
    const instance = { name: 'this-run', isOver: (other: string) => other === 'dead-run' }
    const driver = await open({ root_folder_path: `/${name}` }, { instance })
    await put(driver, '/file', 'content')
    await driver.mkdir(at('/empty'))
    await put(driver, '/.~tidegate-part-dead-run-abc', 'x')
    await put(driver, '/.~tidegate-part-other-run-abc', 'x')
    await put(driver, '/empty/.~tidegate-part-dead-run-abc', 'x')
    t.same(await namesIn(driver, '/'), ['empty', 'file'])
    await driver.remove(at('/empty'))
    await until(async () => (await readdir(join(server.files, name))).length <= 2)
    t.same((await readdir(join(server.files, name))).sort(), ['.~tidegate-part-other-run-abc', 'file'])
    await driver.close?.()
  })

  await t.test('WebDAV: a broken connection leaves the old file, no staged file and no open connection', async (t) => {
    const proxy = await startCuttingProxy(server.port)
    t.teardown(() => proxy.stop())
    const name = await folder()
    const driver = await open({ address: `http://127.0.0.1:${proxy.port}/digest`, root_folder_path: `/${name}` })
    const old = randomBytes(4_000_000)
    await put(driver, '/file', old)
    await driver.mkdir(at('/tree'))
    const stands = async (what: string) => {
      proxy.heal()
      t.ok((await bytesAt(driver, '/file')).equals(old), `${what}: the old file is unchanged`)
      await until(async () => {
        await namesIn(driver, '/')
        return (await readdir(join(server.files, name))).length <= 2
      })
      t.same((await readdir(join(server.files, name))).sort(), ['file', 'tree'], `${what}: no staged file is left`)
    }
    for (const bytes of [1, 500, 1_000_000, 3_000_000]) {
      proxy.cut('up', bytes)
      await refuses(t, () => put(driver, '/file', randomBytes(4_000_000)), 'unavailable', `a write, cut after ${bytes}`)
      await stands(`a write, cut after ${bytes}`)
    }
    for (const bytes of [1, 1000, 1_000_000]) {
      proxy.cut('down', bytes)
      await refuses(t, () => bytesAt(driver, '/file'), 'unavailable', `a read, cut after ${bytes}`)
    }
    proxy.cut('down', 1)
    await refuses(t, () => namesIn(driver, '/'), 'unavailable', 'a listing')
    await refuses(t, () => driver.stat(at('/file')), 'unavailable', 'stat')
    await refuses(t, async () => driver.move?.(at('/file'), at('/other')), 'unavailable', 'a move')
    await refuses(t, () => driver.remove(at('/tree')), 'unavailable', 'a removal')
    await stands('cut off')

    proxy.stall()
    const controller = new AbortController()
    setTimeout(() => {
      controller.abort()
    }, 200)
    await refuses(t, () => driver.stat(at('/file'), { signal: controller.signal }), 'aborted', 'a stalled call')
    const slow = put(driver, '/file', old)
    setTimeout(() => {
      proxy.heal()
    }, 2000)
    t.equal((await slow).size, old.length, 'a short stall is tolerated')
    proxy.stall()
    const stalled = driver.stat(at('/file'))
    setTimeout(() => void driver.close?.(), 200)
    await refuses(t, () => stalled, 'aborted', 'a stalled call when the driver closes')
    proxy.heal()
    await until(() => proxy.open === 0)
    t.equal(proxy.open, 0, 'no connection is left')
  })
})
