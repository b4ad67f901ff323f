/** The Rclone driver passes the conformance suite on remotes that need no server. */
import t from 'tap'
import { rcloneType } from '../../../drivers/rclone/index.js'
import { conformance } from '../../driver-conformance/driver.js'
import { lacks, onlyWithVariants } from '../../programs.js'
import { startRclone } from './mount.js'

/** Bytes of the longest name that fits encrypted into one of the file system. */
const longestEncrypted = 143

await t.test('Rclone on remotes that need no server', { skip: lacks('rclone') }, async (t) => {
  const mount = await startRclone()
  t.teardown(() => mount.stop())
  // While it is open, the storages share one process.
  const first = await mount.open('alias:')
  for (const [remote, skip] of [
    ['alias:', false],
    ['crypt:', onlyWithVariants],
    ['memory:', onlyWithVariants],
    ['local:', onlyWithVariants],
    ['union:', onlyWithVariants],
    ['combine:left', onlyWithVariants],
    ['chunker:', onlyWithVariants],
  ] as const) {
    await t.test(`Rclone passes the conformance suite on ${remote}`, { skip }, async (t) => {
      await conformance(t, {
        type: rcloneType,
        // rclone needs some 15 ms for each write. More than a page once is enough: the other remotes share the code.
        many: remote === 'alias:' ? 1500 : 150,
        longestName: remote === 'crypt:' ? longestEncrypted : 255,
        open: async () => {
          const folder = await mount.folder(remote)
          return {
            driver: await mount.open(folder),
            again: () => mount.open(folder),
            dispose: async () => undefined,
          }
        },
      })
    })
  }
  await first.close?.()
})
