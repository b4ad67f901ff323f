/** What nodes tell one another, as far as a notice can hold it. */
import t from 'tap'
import { FileNotices } from '../../src/cluster/file-notices.js'
import { createLog } from '../../src/process/log.js'
import { Events } from '../../src/storage/events.js'

void t.test('a request to the node that writes the index is refused if it is too long for a notice', async (t) => {
  const sent: (readonly string[])[] = []
  const shared = { notify: async (notices: readonly string[]) => void sent.push(notices), onNotice: () => undefined }
  const notices = new FileNotices(shared, new Events(), createLog('silent'))
  await notices.request('search', { action: 'update', paths: ['/a'] })
  const paths = Array.from({ length: 3 }, (_, n) => `/${String(n).repeat(4000)}`)
  await t.rejects(notices.request('search', { action: 'update', paths }), { code: 'invalid', message: /fewer at once/ })
  t.equal(sent.length, 1)
  await notices.close()
})
