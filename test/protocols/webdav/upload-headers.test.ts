/** Headers that declare size, time and checksums of an upload. A wrong checksum keeps the old file. */
import { createHash } from 'node:crypto'
import t from 'tap'
import { parseUploadHeaders } from '../../../protocols/webdav/commands/write.js'
import { startGateway } from '../../gateway.js'
import { sender } from './dav-client.js'

void t.test('headers that declare size, time and digests of a body are parsed', async (t) => {
  t.same(parseUploadHeaders({}), { size: undefined, modified: undefined, hashes: undefined })
  t.equal(parseUploadHeaders({ 'x-expected-entity-length': '12' }).size, 12)
  t.equal(parseUploadHeaders({ 'oc-total-length': '12' }).size, 12)
  t.equal(parseUploadHeaders({ 'x-file-size': '12' }).size, 12)
  t.equal(parseUploadHeaders({ 'x-file-size': 'many' }).size, undefined)
  t.same(parseUploadHeaders({ 'x-oc-mtime': '1500000000.5' }).modified, new Date(1_500_000_000_500))
  const sha1 = 'da39a3ee5e6b4b0d3255bfef95601890afd80709'
  t.same(parseUploadHeaders({ 'oc-checksum': `SHA1:${sha1.toUpperCase()}` }).hashes, { sha1 })
  t.same(parseUploadHeaders({ 'oc-checksum': `Adler32:1 SHA3-256:abc sha1:${sha1}` }).hashes, { sha1 })
})

void t.test('malformed headers and Content-Range are rejected', async (t) => {
  for (const checksum of ['', 'SHA1', 'SHA1:', 'SHA1:xyz', 'MD5:da39a3ee5e6b4b0d3255bfef95601890afd80709', ':1']) {
    t.throws(() => parseUploadHeaders({ 'oc-checksum': checksum }), { code: 'invalid' }, checksum)
  }
  t.throws(() => parseUploadHeaders({ 'x-oc-mtime': 'now' }), { code: 'invalid' })
  t.throws(() => parseUploadHeaders({ 'content-range': 'bytes 0-1/3' }), { name: 'WebdavError', status: 400 })
  t.throws(() => parseUploadHeaders({ 'oc-chunked': '1' }), { name: 'WebdavError', status: 501 })
})

for (const driver of ['Local', 'Memory']) {
  void t.test(`an upload over ${driver} that does not match OC-Checksum keeps the old file`, async (t) => {
    const send = sender(await startGateway(t, driver === 'Local' ? {} : { driver: { name: driver } }))
    const content = Buffer.alloc(3_000_000, 'tide')
    for (const [name, algorithm] of [
      ['MD5', 'md5'],
      ['SHA1', 'sha1'],
      ['SHA256', 'sha256'],
    ] as const) {
      const right = `${name}:${createHash(algorithm).update(content).digest('hex')}`
      const wrong = `${name}:${createHash(algorithm).update('else').digest('hex')}`
      t.equal((await send('PUT', `/${name}`, { 'oc-checksum': wrong }, content)).status, 400)
      t.equal((await send('GET', `/${name}`)).status, 404)
      t.equal((await send('PUT', `/${name}`, { 'oc-checksum': right }, content)).status, 201)
      t.equal((await send('PUT', `/${name}`, { 'oc-checksum': right }, 'torn')).status, 400)
      t.equal((await send('HEAD', `/${name}`)).headers['content-length'], '3000000')
    }
  })
}
