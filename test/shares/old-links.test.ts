/** Links of File Browser, which lead to imported shares. */
import t from 'tap'
import { serve } from '../protocols/http/served.js'
import { share, Visitor } from './visitor.js'

void t.test('links of File Browser lead to shares of the same id, if a setting says so', async (t) => {
  const admin = await serve(t)
  await admin.put('/docs/a b.txt', 'text of a')
  const id = await share(admin, ['/docs'], { id: 'Ab_-12cD' })
  const follow = async (path: string, method = 'GET') => {
    const response = await fetch(admin.url + path, { method, redirect: 'manual' })
    await response.arrayBuffer()
    return response.headers.get('location') ?? response.status
  }
  const before = await follow(`/share/${id}`)
  t.equal(before, await follow('/share/none'), 'by default it is the page of a folder, as any other')
  await admin.gateway.settings.set(new Map([['filebrowser_share_links', 'true']]))
  for (const [path, location] of [
    [`/share/${id}`, `/@s/${id}`],
    [`/share/${id}/`, `/@s/${id}/`],
    [`/share/${id}/a%20b.txt`, `/@s/${id}/a%20b.txt`],
    [`/public/share/${id}/a%20b.txt`, `/@s/${id}/a%20b.txt`],
    [`/share/${id}?x=//host`, `/@s/${id}`],
    [`/api/public/dl/${id}/a%20b.txt?inline=true`, `/sd/${id}/a%20b.txt`],
    [`/api/public/dl/${id}`, `/sd/${id}`],
  ] as const) {
    t.equal(await follow(path), location, path)
    t.equal(await follow(path, 'HEAD'), location, `HEAD ${path}`)
  }
  const visitor = new Visitor(admin)
  t.match(await visitor.ask(String(await follow(`/api/public/dl/${id}/a%20b.txt`))), { status: 200, text: 'text of a' })
  for (const path of [
    '/share/none',
    `/share/${id.toLowerCase()}`,
    `/share/${id}x`,
    `/share//${id}`,
    `/private/share/${id}`,
    `/shares/${id}`,
  ]) {
    t.equal(await follow(path), before, path)
  }
  t.equal(await follow(`/share/${id}`, 'POST'), before, 'only what is read is redirected')
  t.equal(await follow('/api/public/dl/none'), await follow('/api/public/nothing'))
  await admin.post(`/api/share/delete?id=${id}`)
  t.equal(await follow(`/share/${id}`), before)
})
