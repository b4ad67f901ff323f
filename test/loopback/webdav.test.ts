/** The WebDAV driver connected to the gateway's own WebDAV protocol: the conformance suite checks both. */
import { randomUUID } from 'node:crypto'
import t from 'tap'
import { webdavFields, webdavType } from '../../drivers/webdav/index.js'
import { checkOptions } from '../../src/mounts/fields.js'
import { conformance } from '../driver-conformance/driver.js'
import { at, source, type WritableDriver } from '../driver-conformance/subject.js'
import { testEnv } from '../drivers/env.js'
import { memoryState } from '../drivers/lib/cloud/vendor.js'
import { startGateway } from '../gateway.js'
import { connectHttp } from '../stories/protocols.js'

for (const name of ['Local', 'Memory']) {
  await t.test(
    `the WebDAV driver passes the conformance suite on the gateway’s WebDAV protocol, over ${name}`,
    async (t) => {
      const running = await startGateway(t, name === 'Local' ? {} : { driver: { name } })
      const who = { username: 'admin', password: running.adminPassword }
      const http = await connectHttp(running, who)
      t.teardown(() => http.close())
      const { state } = memoryState()
      const open = async (root: string) => {
        const options = { ...who, address: running.davUrl, root_folder_path: root }
        return (await webdavType.open(checkOptions(webdavFields, options), testEnv({ state }))) as WritableDriver
      }

      const driver = await open('/')
      t.equal(driver.traits?.timeStep, undefined, 'the driver does not know yet')
      await driver.write(at('/first'), source('x'), { modified: new Date('2001-02-03T04:05:06Z') })
      await driver.remove(at('/first'))
      await driver.close?.()

      await conformance(t, {
        type: webdavType,
        many: 300,
        open: async () => {
          const root = `/${randomUUID()}`
          await http.makeFolder(root)
          const opened = await open(root)
          t.equal(opened.traits?.timeStep, 1000, 'the driver has seen that the server stores times')
          return {
            driver: opened,
            dispose: async () => {
              await http.remove(root)
            },
          }
        },
      })
    },
  )
}
