/** Signed URLs: forged, truncated, expired and foreign signatures are rejected, below /d and /p. */
import { createHmac } from 'node:crypto'
import t from 'tap'
import { asPath } from '../../src/base/path.js'
import { mark, post, send, signIn, startWorld, store } from './world.js'

const sign = (key: string, path: string, expiry: string): string => {
  const digest = createHmac('sha256', key).update(`${path}:${expiry}`).digest('base64')
  return `${digest.replaceAll('+', '-').replaceAll('/', '_')}:${expiry}`
}

void t.test('a signature is valid for its path until it expires', async (t) => {
  const world = await startWorld(t)
  const { signedUrls, settings } = world.gateway
  const path = '/team-secret/there.txt'
  const key = settings.get('token')
  const good = signedUrls.sign(asPath(path))
  t.equal(good, sign(key, path, '0'), 'clients compute the same signature')
  const now = Math.floor(Date.now() / 1000)
  const late = String(now + 3600)
  const [digest = ''] = good.split(':')
  const forged: Readonly<Record<string, string>> = {
    'no signature': '',
    'an empty key': sign('', path, '0'),
    'a guessed key': sign('t', path, '0'),
    'another path': sign(key, '/there.txt', '0'),
    'a path above': sign(key, '/team-secret', '0'),
    'a path that begins alike': sign(key, `${path}.old`, '0'),
    'the path with a slash behind': sign(key, `${path}/`, '0'),
    'the path with two slashes': sign(key, `/${path}`, '0'),
    'the path escaped': sign(key, encodeURI('/team-secret/there%2etxt'), '0'),
    'a path and a time that run together': sign(key, `${path}:0`, '0'),
    'a time that has passed': sign(key, path, String(now - 5)),
    'a negative time': sign(key, path, '-1'),
    'a negative zero': sign(key, path, '-0').replace(/:-0$/, ':-00'),
    'a time in another notation': sign(key, path, '1e99'),
    'a time that is hexadecimal': sign(key, path, '0x7fffffff'),
    'a time with a blank': sign(key, path, ` ${late}`),
    'a time with a sign': sign(key, path, `+${late}`),
    'a time that is no number': sign(key, path, 'NaN'),
    'an endless time': sign(key, path, 'Infinity'),
    'a time too large': sign(key, path, '99999999999999999999'),
    'a fraction': sign(key, path, '9999999999.5'),
    'a time that was not signed': `${digest}:${late}`,
    'a cut digest': `${digest.slice(0, -2)}:0`,
    'one character': `${digest.slice(0, 1)}:0`,
    'no digest': ':0',
    'no time': digest,
    'an empty time': `${digest}:`,
    'a digest in lower case': good.toLowerCase(),
    'the other alphabet': `${createHmac('sha256', key).update(`${path}:1`).digest('base64')}:0`,
    'the key itself': key,
    'a session': await signIn(world, 'admin', world.adminPassword),
  }
  for (const protocol of ['/d', '/p']) {
    t.match(
      (await send(world.url, 'GET', `${protocol}${path}?sign=${good}`)).text,
      mark,
      'the valid signature is accepted',
    )
    for (const [title, signature] of Object.entries(forged)) {
      for (const query of [`?sign=${encodeURIComponent(signature)}`, `?sign=${signature.replaceAll('+', '%2B')}`]) {
        const answer = await send(world.url, 'GET', `${protocol}${path}${query}`)
        t.equal(answer.status, 401, `${protocol}: ${title}`)
        t.notMatch(answer.text, mark)
      }
    }
    const twice = await send(world.url, 'GET', `${protocol}${path}?sign=x:0&sign=${good}`)
    t.equal(twice.status, 401, 'of two signatures the first one is used')
    const listed = await send(world.url, 'GET', `${protocol}${path}?sign[]=${good}`)
    t.equal(listed.status, 401)
    const byHeader = await send(world.url, 'GET', `${protocol}${path}`, {
      authorization: key,
      sign: good,
      cookie: `sign=${good}`,
    })
    t.equal(byHeader.status, 401, 'a signature is read from the query only')
  }
})

void t.test('the signature must be of the normalized path, for every spelling of the path', async (t) => {
  const world = await startWorld(t)
  await store(world.all, '/team/open/own', 'mine')
  const own = world.gateway.signedUrls.sign(asPath('/team/open/own'))
  t.equal((await send(world.url, 'GET', `/d/team/open/own?sign=${own}`)).text, 'mine')
  for (const written of [
    '/team/open/own/../../locked/there.txt',
    '/team/open/own/%2e%2e/%2e%2e/locked/there.txt',
    '/team/open/own%2f..%2f..%2flocked%2fthere.txt',
    '/team/open/own\\..\\..\\locked\\there.txt',
    '/team/open/own%5c..%5c..%5clocked%5cthere.txt',
    '/team/open/own%00/../../locked/there.txt',
    '//team/locked/there.txt',
    '/team/locked/there.txt?x=/team/open/own',
    '/team/locked/there.txt%3f/team/open/own',
    '/team/locked/there.txt;/team/open/own',
    '/team/open/../locked/./there.txt',
    '/TEAM/OPEN/OWN',
    '/team/open/own.',
    '/team/open/own%20',
    '/team/open/%6f%77%6e%00',
  ]) {
    for (const protocol of ['/d', '/p']) {
      const query = `${written.includes('?') ? '&' : '?'}sign=${own}`
      const { status, text } = await send(world.url, 'GET', `${protocol}${written}${query}`)
      t.ok(status >= 400, `${protocol}${written}: ${status}`)
      t.notMatch(text, mark)
    }
  }
  const composed = '/team/open/caf\u00e9'
  await store(world.all, composed, 'mine')
  const other = world.gateway.signedUrls.sign(asPath('/team/open/cafe\u0301'))
  t.equal(
    (await send(world.url, 'GET', `/d${encodeURI(composed)}?sign=${other}`)).status,
    401,
    'another Unicode form of a letter',
  )
})

void t.test('old signatures are invalid after a change of the key, and an empty key signs nothing', async (t) => {
  const world = await startWorld(t)
  const { settings, signedUrls } = world.gateway
  const path = '/team-secret/there.txt'
  const old = signedUrls.sign(asPath(path))
  const admin = await signIn(world, 'admin', world.adminPassword)
  t.match(await post(world.url, '/api/admin/setting/reset_token', {}, admin), { code: 200 })
  t.equal((await send(world.url, 'GET', `/d${path}?sign=${old}`)).status, 401)
  await settings.set(new Map([['token', '']])).catch(() => undefined)
  for (const expiry of ['0', '9999999999']) {
    t.equal(
      (await send(world.url, 'GET', `/d${path}?sign=${sign('', path, expiry)}`)).status,
      401,
      'an empty key signs nothing',
    )
  }
})

void t.test('a signature permits reading one file, and nothing else', async (t) => {
  const world = await startWorld(t)
  const { signedUrls } = world.gateway
  const query = `?sign=${signedUrls.sign(asPath('/team-secret/there.txt'))}`
  for (const method of ['PUT', 'DELETE', 'POST', 'PROPFIND', 'MOVE']) {
    const { status } = await send(world.url, method, `/d/team-secret/there.txt${query}`)
    t.equal(status, 405, method)
  }
  const folder = `?sign=${signedUrls.sign(asPath('/team-secret'))}`
  const { status, text } = await send(world.url, 'GET', `/d/team-secret${folder}`)
  t.ok(status >= 400)
  t.notMatch(text, 'untold')
  t.equal((await send(world.url, 'GET', `/d/team-secret/there.txt${folder}`)).status, 401)
  // The API returns signatures only to users who may see the file.
  const token = await signIn(world, 'mallory')
  for (const path of ['/locked/there.txt', '/theirs/there.txt', '/veiled.txt', '/veiled/there.txt']) {
    t.match(await post(world.url, '/api/fs/get', { path }, token), { code: 403, data: null }, path)
  }
  t.match(await post(world.url, '/api/fs/link', { path: '/team-secret/there.txt' }, token), { code: 403, data: null })
})
