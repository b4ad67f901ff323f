/** Bodies of PROPFIND, PROPPATCH and LOCK, and serialized properties. Malformed XML and document types are rejected. */
import t from 'tap'
import { parseLockInfo, parsePropertyUpdate, parsePropfind } from '../../../protocols/webdav/bodies.js'
import { escapeText, parseXml, serialize, serializeContent, wrap } from '../../../protocols/webdav/xml.js'

const inDav = (text: string) => parseXml(text.replace(/^<D:\w+/, '$& xmlns:D="DAV:"'))

void t.test('malformed XML is invalid', async (t) => {
  const malformed = [
    '',
    ' ',
    'text',
    '<a>',
    '<a></b>',
    '<a/><b/>',
    '<a>&foo;</a>',
    '<a b=c/>',
    '<a b="1" b="2"/>',
    '<p:a/>',
    '<p:a xmlns:p=""/>',
    '<a>\u0000</a>',
    '<?xml version="1.0" encoding="iso-8859-1"?><a/>',
    '<a>'.repeat(100),
  ]
  for (const text of malformed) t.throws(() => parseXml(text), { code: 'invalid' }, JSON.stringify(text.slice(0, 30)))
})

void t.test('a document type is rejected before it is parsed', async (t) => {
  t.throws(() => parseXml('<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>'), {
    message: 'a document type is not accepted',
    name: 'HttpError',
  })
})

void t.test('serialized content is self-contained and equivalent', async (t) => {
  const values = [
    '<p xmlns="urn:p">plain &amp; &lt;simple&gt;</p>',
    '<p xmlns="urn:p" xmlns:q="urn:q"><q:a b="1" q:c="&quot;2&quot;"/>and<r xmlns=""/></p>',
    '<x:p xmlns:x="urn:x"><x:q><y:z xmlns:y="urn:y">é 世界</y:z></x:q></x:p>',
    '<x:p xmlns:x="urn:x" xmlns:N="urn:inner"><N:a/></x:p>',
    '<p><![CDATA[<raw> & text]]></p>',
    '<p><q a="line&#10;tab&#9;"/>cr&#13;</p>',
  ]
  const meaning = (text: string): unknown =>
    JSON.parse(JSON.stringify(parseXml(text), (key, value: unknown) => (key === 'prefix' ? undefined : value)))
  for (const value of values) {
    const element = parseXml(value)
    t.same(meaning(serialize(element)), meaning(value), value)
    const given = wrap(element, serializeContent(element))
    t.same(meaning(`<D:prop xmlns:D="DAV:">${given}</D:prop>`), meaning(`<D:prop xmlns:D="DAV:">${value}</D:prop>`))
  }
})

void t.test('characters that XML cannot hold are replaced in names', async (t) => {
  t.equal(escapeText('a\u0001b\uffff&'), 'a\ufffdb\ufffd&amp;')
  t.equal(escapeText(']]>'), ']]&gt;')
})

void t.test('PROPFIND bodies request all properties, names, or some properties', async (t) => {
  t.same(parsePropfind(undefined), { kind: 'allprop', include: [] })
  t.same(parsePropfind(inDav('<D:propfind><D:propname/></D:propfind>')), { kind: 'propname' })
  t.same(parsePropfind(inDav('<D:propfind><D:allprop/><D:include><D:a/></D:include></D:propfind>')), {
    kind: 'allprop',
    include: [{ namespace: 'DAV:', name: 'a' }],
  })
  t.same(parsePropfind(inDav('<D:propfind><D:prop><D:a/><b xmlns="urn:b"/><c/></D:prop></D:propfind>')), {
    kind: 'prop',
    names: [
      { namespace: 'DAV:', name: 'a' },
      { namespace: 'urn:b', name: 'b' },
      { namespace: '', name: 'c' },
    ],
  })
  for (const text of [
    '<D:propfind/>',
    '<D:other><D:allprop/></D:other>',
    '<D:propfind><D:prop/><D:allprop/></D:propfind>',
    '<D:propfind><unknown/></D:propfind>',
  ]) {
    t.throws(() => parsePropfind(inDav(text)), { code: 'invalid' }, text)
  }
})

void t.test('PROPPATCH changes are in document order', async (t) => {
  const body = inDav(
    '<D:propertyupdate><D:set xml:lang="de"><D:prop><a xmlns="urn:a">1<b/></a></D:prop></D:set>' +
      '<D:remove><D:prop><c xmlns="urn:c">ignored</c></D:prop></D:remove></D:propertyupdate>',
  )
  t.same(parsePropertyUpdate(body), [
    { set: { namespace: 'urn:a', name: 'a', value: '1<b xmlns="urn:a"/>', language: 'de' } },
    { remove: { namespace: 'urn:c', name: 'c' } },
  ])
  t.throws(() => parsePropertyUpdate(undefined), { code: 'invalid' })
  t.throws(() => parsePropertyUpdate(inDav('<D:propertyupdate/>')), { code: 'invalid' })
})

void t.test('LOCK bodies have a scope, and an owner as arbitrary XML', async (t) => {
  const body = (scope: string, owner = '') =>
    inDav(`<D:lockinfo><D:lockscope>${scope}</D:lockscope><D:locktype><D:write/></D:locktype>${owner}</D:lockinfo>`)
  t.same(parseLockInfo(body('<D:shared/>')), { scope: 'shared', owner: '' })
  t.same(parseLockInfo(body('<D:exclusive/>', '<D:owner><D:href>mailto:a@b</D:href></D:owner>')), {
    scope: 'exclusive',
    owner: '<D:owner xmlns:D="DAV:"><D:href>mailto:a@b</D:href></D:owner>',
  })
  for (const scope of ['', '<D:exclusive/><D:shared/>', '<exclusive/>']) {
    t.throws(() => parseLockInfo(body(scope)), { code: 'invalid' }, scope)
  }
})
