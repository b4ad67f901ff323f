/**
 * Bodies of PROPFIND, PROPPATCH and LOCK, and serialized properties. Malformed XML, document types and what is too
 * large are rejected.
 */
import { IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import t from 'tap'
import { parseLockInfo, parsePropertyUpdate, parsePropfind } from '../../../protocols/webdav/bodies.js'
import { escapeText, parseXml, readXml, serialize, serializeContent, wrap } from '../../../protocols/webdav/xml.js'

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
    '<a>'.repeat(100),
  ]
  for (const text of malformed) t.throws(() => parseXml(text), { code: 'invalid' }, JSON.stringify(text.slice(0, 30)))
})

void t.test('a document type is rejected before it is parsed', async (t) => {
  t.throws(() => parseXml('<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>'), {
    message: 'a document type is not accepted',
    name: 'WebdavError',
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

void t.test('nodes of every kind are limited', async (t) => {
  const nodes = (count: number): Readonly<Record<string, string>> => ({
    elements: '<a/>'.repeat(count),
    attributes: `<a ${Array.from({ length: count }, (_, index) => `a${index}=""`).join(' ')}/>`,
    declarations: `<a ${Array.from({ length: count }, (_, index) => `xmlns:a${index}="u"`).join(' ')}/>`,
    'CDATA sections': '<![CDATA[]]>'.repeat(count),
    comments: '<!---->'.repeat(count),
    'processing instructions': '<?a?>'.repeat(count),
    'references to entities': '&lt;'.repeat(count),
    'references to characters': '&#65;'.repeat(count),
    'references in an attribute': `<a b="${'&lt;'.repeat(count)}"/>`,
  })
  for (const [kind, text] of Object.entries(nodes(19_990))) t.ok(parseXml(`<x>${text}</x>`), kind)
  for (const [kind, text] of Object.entries(nodes(20_010))) {
    t.throws(() => parseXml(`<x>${text}</x>`), { code: 'too_large' }, kind)
  }
  t.throws(() => parseXml(`<x>${'text<!---->'.repeat(10_010)}</x>`), { code: 'too_large' }, 'texts')
})

void t.test('a body is decoded as its byte order mark or its XML declaration says', async (t) => {
  const read = async (body: Buffer) => {
    const request = Object.assign(new IncomingMessage(new Socket()), { complete: true })
    request.push(body)
    request.push(null)
    return (await readXml(request))?.children
  }
  const declared = (encoding: string) => `<?xml version="1.0" encoding="${encoding}"?><a>é</a>`
  for (const encoding of ['iso-8859-1', 'ISO-8859-1', 'latin1', 'windows-1252', 'us-ascii']) {
    t.same(await read(Buffer.from(declared(encoding), 'latin1')), ['é'], encoding)
  }
  t.same(await read(Buffer.from(declared('utf-8'))), ['é'])
  t.same(await read(Buffer.from('<a>é</a>')), ['é'])
  t.same(await read(Buffer.from(`\ufeff${declared('iso-8859-1')}`)), ['é'], 'the mark of UTF-8')
  t.same(await read(Buffer.from(`\ufeff${declared('utf-16')}`, 'utf16le')), ['é'])
  t.same(await read(Buffer.from(declared('utf-16'))), ['é'], 'declared as UTF-16, and is UTF-8')
  for (const encoding of ['utf-7', 'none', 'e'.repeat(300)]) {
    await t.rejects(read(Buffer.from(`<?xml version="1.0" encoding="${encoding}"?><a>\xe9</a>`, 'latin1')), {
      code: 'invalid',
    })
  }
  await t.rejects(read(Buffer.from('<a>é</a>', 'latin1')), { code: 'invalid' })
})

void t.test('a large body is parsed in many turns of the event loop', async (t) => {
  const request = Object.assign(new IncomingMessage(new Socket()), { complete: true })
  request.push(`<x><?a ${'? '.repeat(500_000)}?></x>`)
  request.push(null)
  let turns = 0
  const counter = setInterval(() => turns++, 0)
  const count = () => {
    turns++
    immediate = setImmediate(count)
  }
  let immediate = setImmediate(count)
  t.match(await readXml(request), { name: 'x' })
  clearInterval(counter)
  clearImmediate(immediate)
  t.ok(turns > 30, `${turns} turns`)
})

/** The properties of a PROPPATCH in which all names have a long namespace. */
const inherited = (namespace: string, changes: string) =>
  parseXml(`<D:propertyupdate xmlns:D="DAV:" xmlns:x="${namespace}">${changes}</D:propertyupdate>`)
const setting = (properties: string) => `<D:set><D:prop>${properties}</D:prop></D:set>`

void t.test('what a PROPPATCH stores is limited before it is serialized', async (t) => {
  const refused = (namespace: string, changes: string, code: string, why: string) =>
    t.throws(() => parsePropertyUpdate(inherited(namespace, changes)), { code }, why)
  const long = 'n'.repeat(600_000)
  refused(long, setting(`<y>${'<x:a/>'.repeat(7500)}</y>`), 'no_space', 'a namespace that many elements inherit')
  refused('n'.repeat(60_000), setting(`<y>${'<x:a/>'.repeat(7500)}</y>`), 'no_space', 'a shorter one')
  refused(long, setting(`<y>${'<z x:a=""/>'.repeat(1000)}</y>`), 'no_space', 'a namespace of attributes')
  refused(long, setting('<x:a/>'.repeat(7500)), 'too_large', 'a namespace of properties')
  refused(long, `<D:remove><D:prop>${'<x:a/>'.repeat(900)}</D:prop></D:remove>`, 'too_large', 'of removed properties')
  refused('n'.repeat(2049), setting('<x:a/>'), 'too_large', 'a long namespace')
  refused('n', setting(`<x:${'a'.repeat(1025)}/>`), 'too_large', 'a long name')
  refused('n', setting('<x:a/>'.repeat(1001)), 'too_large', 'too many properties')
  refused('n', setting(`<x:a>${'v'.repeat(262_144)}</x:a>`), 'no_space', 'a long value')
  refused('n', setting(`<x:a>${'v'.repeat(140_000)}</x:a><x:b>${'v'.repeat(140_000)}</x:b>`), 'no_space', 'two values')
  refused('n', setting(`<x:a>${'>'.repeat(100_000)}</x:a>`), 'no_space', 'a value that is long when it is escaped')
  const language = `<D:set xml:lang="${'l'.repeat(100_000)}"><D:prop>${'<x:a/>'.repeat(900)}</D:prop></D:set>`
  refused('n', language, 'no_space', 'a language that many properties inherit')
  t.match(parsePropertyUpdate(inherited('n'.repeat(2048), setting(`<x:${'a'.repeat(1024)}/>`))), [
    { set: { value: '' } },
  ])
  t.equal(parsePropertyUpdate(inherited('n', setting('<x:a/>'.repeat(1000)))).length, 1000)
  t.match(parsePropertyUpdate(inherited('n', setting(`<x:a>${'v'.repeat(260_000)}</x:a>`))), [{ set: { name: 'a' } }])
})

void t.test('the names that a PROPFIND repeats for each resource are limited', async (t) => {
  const asking = (namespace: string, names: string) =>
    parsePropfind(parseXml(`<D:propfind xmlns:D="DAV:" xmlns:x="${namespace}"><D:prop>${names}</D:prop></D:propfind>`))
  const names = (count: number) => Array.from({ length: count }, (_, index) => `<x:a${index}/>`).join('')
  t.throws(() => asking('n'.repeat(1_000_000), names(900)), { code: 'too_large' })
  t.throws(() => asking('n'.repeat(300), names(200)), { code: 'too_large' })
  t.throws(() => asking('&quot;'.repeat(6000), names(1)), { code: 'too_large' }, 'escaped')
  t.throws(() => asking('n', `<x:${'a'.repeat(40_000)}/>`), { code: 'too_large' })
  t.throws(() => asking('n', names(1001)), { code: 'too_large' })
  t.match(asking('n', names(1000)), { names: { length: 1000 } })
})

void t.test('the owner of a LOCK is limited', async (t) => {
  const lock = (namespace: string, owner: string) =>
    parseLockInfo(
      parseXml(
        `<D:lockinfo xmlns:D="DAV:" xmlns:x="${namespace}"><D:lockscope><D:shared/></D:lockscope>` +
          `<D:locktype><D:write/></D:locktype><D:owner>${owner}</D:owner></D:lockinfo>`,
      ),
    )
  t.throws(() => lock('n', 'o'.repeat(1_000_000)), { code: 'too_large' })
  t.throws(() => lock('n'.repeat(5000), '<x:a/>'), { code: 'too_large' })
  t.equal(lock('n', 'o'.repeat(4000)).owner, `<D:owner xmlns:D="DAV:">${'o'.repeat(4000)}</D:owner>`)
})

void t.test('a message about malformed XML does not repeat a long name', async (t) => {
  const name = 'n'.repeat(500_000)
  for (const text of [`<a></${name}>`, `<${name}:a/>`]) {
    t.throws(() => parseXml(text), { code: 'invalid', message: /^.{1,300}$/ })
  }
})
