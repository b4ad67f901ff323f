/** The headers of an upload by the API: path, time, size, digests and folder password. */
import t from 'tap'
import { toErrorResponse } from '../../../../protocols/http/api/errors.js'
import { checkHeaders } from '../../../../protocols/http/api/fields.js'
import { uploadHeaders } from '../../../../protocols/http/files/upload-headers.js'

const read = (headers: Record<string, string | string[]>) =>
  checkHeaders(
    uploadHeaders,
    Object.fromEntries(
      Object.entries(headers).map(([name, value]) => [name, typeof value === 'string' ? [value] : value]),
    ),
  )
const refusal = (headers: Record<string, string | string[]>) => {
  try {
    return read(headers)
  } catch (error) {
    const { code, message } = toErrorResponse(error)
    return `${code} ${message}`
  }
}
const at = (path: string) => ({ 'file-path': path })

void t.test('File-Path is percent-encoded or raw UTF-8, and a plus is not a space', async (t) => {
  t.equal(read(at('/a/%C3%A4%20b%2Bc+d')).path, '/a/ä b+c+d')
  t.equal(read(at(Buffer.from('/世界/ä').toString('latin1'))).path, '/世界/ä')
  t.equal(read(at('/caf\xe9')).path, '/café', 'bytes that are not UTF-8 are Latin-1')
  t.equal(read(at('/caf\xe9%C3%A8')).path, '/caféè')
  t.equal(read(at('a//b/./c/')).path, '/a/b/c')
  t.equal(read(at('%2Fa%2Fb')).path, '/a/b')
})

void t.test('a File-Path that names no file is rejected', async (t) => {
  for (const path of ['', '/', '%2F', '.', '//']) t.match(refusal(at(path)), /^400 /, path)
  t.equal(refusal({}), '400 File-Path is missing')
  t.equal(refusal({ 'file-path': ['/a', '/b'] }), '400 file-path is given more than once')
  for (const path of ['/a%zz', '/a%', '/%ff', '/a%00b', '/a/b%0Ac']) {
    t.match(refusal(at(path)), /^400 /, path)
  }
  for (const path of ['/a/../b', '..', '/%2e%2e/b', '/a/..%5c..%5cb']) {
    t.equal(refusal(at(path)), '403 using relative path is not allowed', path)
  }
})

void t.test('Overwrite and As-Task accept only their exact values', async (t) => {
  t.match(read(at('/a')), { createOnly: false, asTask: false })
  t.match(read({ ...at('/a'), overwrite: 'false', 'as-task': 'true' }), { createOnly: true, asTask: true })
  t.match(read({ ...at('/a'), overwrite: 'False', 'as-task': '1' }), { createOnly: false, asTask: false })
})

void t.test('If-Match and If-None-Match are lists of entity tags', async (t) => {
  t.match(read(at('/a')), { ifMatch: undefined, ifNoneMatch: undefined })
  t.match(read({ ...at('/a'), 'if-match': '"1", "2"', 'if-none-match': '*' }), {
    ifMatch: ['"1"', '"2"'],
    ifNoneMatch: '*',
  })
  t.same(read({ ...at('/a'), 'if-match': 'faulty' }).ifMatch, [], 'matches nothing')
})

void t.test('Last-Modified is milliseconds, other values are ignored', async (t) => {
  const modified = (text: string) => read({ ...at('/a'), 'last-modified': text }).modified
  t.same(modified('1715961936465'), new Date(1715961936465))
  t.same(modified('-1000'), new Date(-1000))
  for (const text of ['', 'Fri, 17 May 2024 16:05:36 GMT', '1.5', '9999999999999999', '99999999999999999999']) {
    t.equal(modified(text), undefined, text)
  }
})

void t.test('declared sizes and digests must be well-formed', async (t) => {
  t.equal(read({ ...at('/a'), 'x-file-size': '12' }).size, 12)
  for (const size of ['x', '-1', '1.5', '99999999999999999999']) {
    t.equal(refusal({ ...at('/a'), 'x-file-size': size }), '400 X-File-Size is not an integer', size)
  }
  const md5 = 'D41D8CD98F00B204E9800998ECF8427E'
  t.same(read({ ...at('/a'), 'x-file-md5': md5, 'x-file-sha1': '' }).hashes, { md5: md5.toLowerCase() })
  t.equal(refusal({ ...at('/a'), 'x-file-md5': 'abc' }), '400 x-file-md5 is not a digest of 32 hexadecimal digits')
  t.match(refusal({ ...at('/a'), 'x-file-sha256': md5 }), /^400 x-file-sha256 /)
})

void t.test('a folder password is read from a header or a cookie', async (t) => {
  t.equal(read({ ...at('/a'), password: Buffer.from('pä').toString('latin1') }).password, 'pä')
  t.equal(read({ ...at('/a'), password: 'p\xe4' }).password, 'pä', 'bytes that are not UTF-8 are Latin-1')
  t.equal(read({ ...at('/a'), cookie: 'x=1; browser-password=p%20w; y=2' }).password, 'p w')
  t.equal(read({ ...at('/a'), password: 'header', cookie: 'browser-password=cookie' }).password, 'header')
  t.equal(read({ ...at('/a'), cookie: 'other-browser-password=x' }).password, undefined)
})
