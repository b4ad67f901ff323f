import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { WorkingFile } from '../../../protocols/sftp/working-file.js'
import type { WritableFile } from '../../../src/contract/capabilities.js'
import { GatewayError } from '../../../src/contract/errors.js'
import { asPath } from '../../../src/contract/path.js'

const entry = { name: 'x', kind: 'file', size: 0, modified: new Date(0) } as const

function handle(closed: () => void): WritableFile {
  return {
    entry,
    read: async () => 0,
    write: async () => undefined,
    truncate: async () => undefined,
    sync: async () => undefined,
    commit: async () => entry,
    close: async () => closed(),
  }
}

void t.test('concurrent reads after publishing reopen the file once', async (t) => {
  let [opened, closed] = [0, 0]
  const tree = {
    open: async () => {
      opened++
      await turn()
      return handle(() => closed++)
    },
  }
  const staged = handle(() => undefined)
  const file = new WorkingFile(
    tree as unknown as ConstructorParameters<typeof WorkingFile>[0],
    asPath('/x'),
    staged,
    true,
    true,
  )
  await file.publish()
  await Promise.all([1, 2, 3].map(() => file.read(Buffer.alloc(1), 0)))
  t.equal(opened, 1)
  await file.release()
  t.equal(closed, opened, 'each handle is closed')
})

void t.test('a flush that the backend does not have is ignored, one that fails prevents the publication', async (t) => {
  const flushes = [
    { sync: () => Promise.reject(new GatewayError('unsupported')), isPublished: true },
    { sync: () => Promise.reject(new GatewayError('unavailable')), isPublished: false },
  ]
  for (const { sync, isPublished } of flushes) {
    const staged = { ...handle(() => undefined), sync }
    const tree = {} as unknown as ConstructorParameters<typeof WorkingFile>[0]
    const file = new WorkingFile(tree, asPath('/x'), staged, true, true)
    for (const step of [() => file.sync(), () => file.publish()]) {
      if (isPublished) await step()
      else await t.rejects(step, { code: 'unavailable' })
    }
    await file.release()
  }
})
