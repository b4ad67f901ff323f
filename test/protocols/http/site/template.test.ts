/** Placeholders in the page of a web client are replaced once, by values that are escaped for their place. */
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { forAttribute, forScript, forText } from '../../../../protocols/http/api/escape.js'
import { consoleBuild } from '../../../../protocols/http/site/console.js'
import { PageTemplate, type PageValues } from '../../../../protocols/http/site/page-template.js'
import { externalClient } from '../../../../protocols/http/site/web-build.js'

const nothing: PageValues = { cdn: '', site: '', title: '', mainColor: '', favicon: '', logo: '', head: '', body: '' }
const templateOf = (page: string): PageTemplate => new PageTemplate(page, externalClient.placeholders)

void t.test('a string in a script keeps its value, and is escaped for HTML', async (t) => {
  const everything = Array.from({ length: 0x3000 }, (_, code) => String.fromCharCode(code)).join('')
  const written = forScript(everything)
  t.equal(runInNewContext(written), everything)
  t.notMatch(written.slice(1, -1), /[<>&'"`\n\r\u2028\u2029]/)
  t.equal(forScript('#1890ff'), "'#1890ff'")
})

void t.test('texts and attributes are escaped', async (t) => {
  t.equal(forText('a <b> & "c" \'d\''), 'a &#60;b&#62; &#38; &#34;c&#34; &#39;d&#39;')
  t.equal(forAttribute('a b=c\n'), 'a&#32;b&#61;c&#10;')
  t.equal(forText('\0'), '&#65533;')
  t.equal(forAttribute('https://example.org/a.png?b'), 'https://example.org/a.png?b')
})

void t.test('only the first occurrence of each placeholder is replaced', async (t) => {
  const template = templateOf('Loading... Loading... cdn: undefined cdn: undefined')
  t.equal(template.render({ ...nothing, title: 'T', cdn: '/c' }), "T Loading... cdn: '/c' cdn: undefined")
})

void t.test('a page without placeholders is unchanged', async (t) => {
  t.equal(templateOf('').render(nothing), '')
  t.equal(templateOf('<p>plain').render(nothing), '<p>plain')
})

void t.test('a site path with special characters of scripts and attributes is escaped', async (t) => {
  const template = templateOf('base_path: undefined <link href="/manifest.json">')
  t.equal(
    template.render({ ...nothing, site: `/a'b"c` }),
    `base_path: '/a\\u0027b\\u0022c' <link href="/a&#39;b&#34;c/manifest.json">`,
  )
})

void t.test('default pictures of all known client versions are replaced by those of the site', async (t) => {
  for (const address of [
    'https://res.oplist.org/logo/logo',
    'https://cdn.oplist.org/gh/OpenListTeam/Logo@main/logo',
    'https://cdn.jsdelivr.net/gh/alist-org/logo@main/logo',
    'https://jsd.nn.ci/gh/alist-org/logo@main/logo',
  ]) {
    const template = templateOf(`<link href="${address}.svg"><link href="${address}.png">`)
    t.equal(template.render({ ...nothing, favicon: '/f', logo: '/l' }), '<link href="/f"><link href="/l">')
    t.equal(template.render(nothing), '<link href="data:,"><link href="data:,">')
  }
})

void t.test('the placeholders of the console are replaced by values that are escaped for their place', async (t) => {
  const template = new PageTemplate(
    '<base href="{{base}}"><title>{{title}}</title>{{icon}}{{title}}',
    consoleBuild.placeholders,
  )
  const render = (values: Partial<PageValues>): string => template.render({ ...nothing, ...values })
  t.match(render({}), /^<base href="\/"><title>Tidegate<\/title>data:image\/svg\+xml,%3Csvg[\w%&#;.-]*\{\{title\}\}$/)
  const icon = /data:[^{]*/.exec(render({}))?.[0] ?? ''
  t.match(
    render({ site: `/a"b`, title: '</title><script>{{icon}}', favicon: '/own.png' }),
    '<base href="/a&#34;b/"><title>&#60;/title&#62;&#60;script&#62;{{icon}}</title>/own.png',
  )
  for (const favicon of ['/d/icon.png?sign=x:0', 'icon.svg', 'data:image/png;base64,AAAA']) {
    t.match(render({ favicon }), `</title>${forAttribute(favicon)}{{`, favicon)
  }
  for (const favicon of [
    'https://example.org/i.png',
    '//example.org/i.png',
    '\\\\example.org',
    'javascript:x',
    'data:text/html,x',
    'http://[',
  ]) {
    t.match(render({ favicon }), icon, `${favicon} is not of this server`)
  }
})
