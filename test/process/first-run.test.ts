/** What the first run says of its addresses. */
import { networkInterfaces } from 'node:os'
import t from 'tap'
import { firstRunLines } from '../../src/process/first-run.js'

const own = Object.values(networkInterfaces())
  .flatMap((each) => each ?? [])
  .find(({ internal, family }) => !internal && family === 'IPv4')

void t.test('every address of the machine is named where the daemon listens on all', async (t) => {
  const lines = firstRunLines({ site_url: '/files' }, { http: '0.0.0.0:5244', https: 'off' })
  t.equal(lines[1], '  http://localhost:5244/files/')
  if (own) t.ok(lines.includes(`  http://${own.address}:5244/files/`), lines.join('\n'))
  t.match(lines.at(-1), /plain HTTP/)
})

void t.test('one address is named alone, and HTTPS comes first and without a warning', async (t) => {
  const addresses = { http: 'off', https: '[::1]:5443', sftp: '127.0.0.1:5222' }
  t.same(firstRunLines({ site_url: '' }, addresses).slice(1), ['  https://[::1]:5443/'])
  t.same(firstRunLines({ site_url: '' }, { ...addresses, http: '127.0.0.1:5244' }).slice(1, 3), [
    '  https://[::1]:5443/',
    '  http://127.0.0.1:5244/',
  ])
})
