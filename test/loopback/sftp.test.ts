/** The SFTP driver connected to the gateway's own SFTP protocol: the conformance suite checks both. */
import { randomUUID } from 'node:crypto'
import t from 'tap'
import { sftpFields, sftpType } from '../../drivers/sftp/index.js'
import { checkOptions } from '../../src/mounts/fields.js'
import { conformance } from '../driver-conformance/driver.js'
import { testEnv } from '../drivers/env.js'
import { startGateway } from '../gateway.js'
import { connectHttp } from '../stories/protocols.js'

for (const name of ['Local', 'Memory']) {
  await t.test(
    `the SFTP driver passes the conformance suite on the gateway’s SFTP protocol, over ${name}`,
    async (t) => {
      const running = await startGateway(t, name === 'Local' ? {} : { driver: { name } })
      const who = { username: 'admin', password: running.adminPassword }
      const http = await connectHttp(running, who)
      t.teardown(() => http.close())
      await conformance(t, {
        type: sftpType,
        many: 1000,
        open: async () => {
          const root = `/${randomUUID()}`
          await http.makeFolder(root)
          const options = { ...who, address: `127.0.0.1:${running.sftpPort}`, root_folder_path: root }
          return {
            driver: await sftpType.open(checkOptions(sftpFields, options), testEnv()),
            dispose: async () => {
              await http.remove(root)
            },
          }
        },
      })
    },
  )
}
