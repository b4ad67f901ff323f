/** A folder that cannot be opened completely leaves no listing open. */
import t from 'tap'
import { FolderHandle } from '../../../protocols/sftp/folder-handle.js'
import type { SftpFileSystem } from '../../../protocols/sftp/file-system.js'
import type { Entry } from '../../../src/contract/entry.js'
import { GatewayError } from '../../../src/base/errors.js'
import { asPath } from '../../../src/base/path.js'

const entry: Entry = { name: 'x', kind: 'file', size: 0, modified: new Date(0) }

void t.test('a folder whose entry cannot be read is closed', async (t) => {
  let isClosed = false
  const fs: Pick<SftpFileSystem, 'pages' | 'stat'> = {
    async *pages() {
      try {
        yield [entry]
        yield [entry]
      } finally {
        isClosed = true
      }
    },
    stat: () => Promise.reject(new GatewayError('denied')),
  }
  const { signal } = new AbortController()
  const owner = { id: 1, name: 'ada' }
  await t.rejects(FolderHandle.open(fs as SftpFileSystem, asPath('/x'), owner, new Map(), signal), { code: 'denied' })
  t.ok(isClosed)
})
