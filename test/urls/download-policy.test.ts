import t from 'tap'
import { judgeDownload, type DownloadRequestKind, type DownloadVerdict } from '../../src/urls/download-policy.js'
import type { StorageRow } from '../../src/store/rows.js'

type Policy = StorageRow['webdavPolicy']
type Marks = 'direct' | 'webProxy' | 'ownProxy' | 'proxy_types' | 'text_types'

/** The specification: the kind of request, WebDAV's policy, the conditions that hold, and the verdict. */
const rows: readonly (readonly [
  route: DownloadRequestKind,
  policy: Policy,
  holds: readonly Marks[],
  verdict: DownloadVerdict,
])[] = [
  // Signed URLs at /d: the direct URL, unless something requires the gateway.
  ['d', '302_redirect', [], 'stream'],
  ['d', '302_redirect', ['ownProxy'], 'own proxy'],
  ['d', '302_redirect', ['direct'], 'direct'],
  ['d', '302_redirect', ['direct', 'ownProxy'], 'direct'],
  ['d', '302_redirect', ['direct', 'text_types'], 'direct'],
  ['d', 'use_proxy_url', ['direct'], 'direct'],
  ['d', 'native_proxy', ['direct'], 'direct'],
  ['d', '302_redirect', ['direct', 'webProxy'], 'stream'],
  ['d', '302_redirect', ['direct', 'webProxy', 'ownProxy'], 'own proxy'],
  ['d', '302_redirect', ['direct', 'proxy_types'], 'stream'],
  ['d', '302_redirect', ['direct', 'proxy_types', 'ownProxy'], 'own proxy'],
  // Signed URLs at /p: only files that must be sent through the gateway.
  ['p', '302_redirect', [], 'stream'],
  ['p', '302_redirect', ['ownProxy'], 'own proxy'],
  ['p', '302_redirect', ['direct'], 'refused'],
  ['p', 'native_proxy', ['direct'], 'refused'],
  ['p', '302_redirect', ['direct', 'ownProxy'], 'refused'],
  ['p', 'use_proxy_url', ['direct'], 'stream'],
  ['p', 'use_proxy_url', ['direct', 'ownProxy'], 'own proxy'],
  ['p', '302_redirect', ['direct', 'webProxy'], 'stream'],
  ['p', '302_redirect', ['direct', 'proxy_types'], 'stream'],
  ['p', '302_redirect', ['direct', 'text_types'], 'stream'],
  ['p', '302_redirect', ['direct', 'text_types', 'ownProxy'], 'own proxy'],
  // raw_url of the API: extensions make no difference.
  ['raw_url', '302_redirect', [], 'stream'],
  ['raw_url', '302_redirect', ['ownProxy'], 'own proxy'],
  ['raw_url', '302_redirect', ['direct'], 'direct'],
  ['raw_url', 'use_proxy_url', ['direct', 'ownProxy'], 'direct'],
  ['raw_url', '302_redirect', ['direct', 'proxy_types', 'text_types'], 'direct'],
  ['raw_url', '302_redirect', ['direct', 'webProxy'], 'stream'],
  ['raw_url', '302_redirect', ['direct', 'webProxy', 'ownProxy'], 'own proxy'],
  // WebDAV has its own policy.
  ['file_server', '302_redirect', [], 'stream'],
  ['file_server', '302_redirect', ['ownProxy'], 'stream'],
  ['file_server', '302_redirect', ['direct', 'webProxy', 'ownProxy', 'proxy_types'], 'direct'],
  ['file_server', 'use_proxy_url', ['direct'], 'stream'],
  ['file_server', 'use_proxy_url', ['direct', 'ownProxy'], 'own proxy'],
  ['file_server', 'use_proxy_url', ['ownProxy'], 'own proxy'],
  ['file_server', 'native_proxy', ['direct', 'ownProxy'], 'stream'],
]

void t.test('judgeDownload() returns the verdict of each row of the table', async (t) => {
  for (const [route, webdavPolicy, holds, verdict] of rows) {
    const has = (mark: Marks) => holds.includes(mark)
    const facts = {
      route,
      webdavPolicy,
      direct: has('direct'),
      webProxy: has('webProxy'),
      ownProxy: has('ownProxy'),
      isListed: has,
    }
    t.equal(judgeDownload(facts), verdict, `${route} ${webdavPolicy} ${holds.join(' ')}`)
  }
})
