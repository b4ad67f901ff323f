/** The WebDAV driver against Apache's mod_dav. */
import { chmod, mkdir, rm } from 'node:fs/promises'
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import t from 'tap'
import { webdavFields, webdavType, type WebdavOptions } from '../../drivers/webdav/index.js'
import type { DriverEnv } from '../../src/driver.js'
import { checkOptions } from '../../src/fields.js'
import { conformance } from '../conformance/driver.js'
import type { WritableDriver } from '../conformance/subject.js'
import { lacks } from '../programs.js'
import { apacheAccount, apachePrograms, startApacheDav } from '../services/apache-dav.js'
import { testEnv } from './env.js'

void t.test('WebDAV', { skip: lacks(...apachePrograms), timeout: 300_000 }, async (t) => {
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
    await t.test(`it keeps the contract, signed in by ${way}`, async (t) => {
      await conformance(t, {
        name: `WebDAV, ${way}`,
        traits: webdavType.traits,
        many: way === 'digest' ? 2000 : 100,
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
})
