/** Films and sounds: subtitles, what follows, playlists, and other programs. */

import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Page } from 'playwright-core'
import t from 'tap'
import { axeViolations, eventually, withoutBrowser } from './browser.js'
import { film, tone } from './documents.js'
import { button, dialog, startSite, visit } from './site.js'

const hostile = '<img src=x onerror="localStorage.ran=1"><script>localStorage.ran=1</script>'

const script = (text: string) => `[Events]\nDialogue: 0,0:00:00.00,0:00:06.00,Default,,0,0,0,,${text}\n`
const subRip = (text: string) => `1\n00:00:00,000 --> 00:00:06,000\n${text}\n`

const contents: Readonly<Record<string, string | Buffer>> = {
  'films/1 harbour.webm': film,
  'films/1 harbour.srt': subRip(hostile),
  'films/1 harbour.de.vtt': 'WEBVTT\n\n00:00.000 --> 00:06.000\n<b>Hafen</b>\n',
  'films/1 harbour.zh-CN.ass': script('{\\b1}海港{\\b0}'),
  'films/1 harbour 2.srt': subRip('of another film'),
  'films/2 cape.webm': film,
  'films/3 broken.webm': 'no film',
  'films/notes.txt': 'no film',
  'songs/1.wav': tone(1),
  'songs/2.wav': tone(1),
  'songs/3.wav': tone(1),
  'songs/list.m3u':
    '#EXTM3U\n#EXTINF:1,Second\n2.wav\nhttps://remote.invalid/a.wav\n//remote.invalid/b.wav\n../films/2%20cape.webm\n' +
    'missing.wav\n',
  'songs/nothing.m3u8': '#EXTM3U\nhttps://remote.invalid/a.wav\n',
  'songs/stream.m3u8': '#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:9,\n2.wav\n',
}

/** The texts of the cues that are shown, after the film has been moved to another place: cues follow its time. */
const cuesShown = (page: Page) =>
  page.locator('video').evaluate(async (video: HTMLVideoElement) => {
    const moved = new Promise((resolve) => (video.onseeked = resolve))
    video.currentTime = video.currentTime === 1 ? 2 : 1
    await moved
    return [...video.textTracks]
      .filter(({ mode }) => mode === 'showing')
      .flatMap(({ activeCues }) => [...(activeCues ?? [])].map((cue) => cue.getCueAsHTML().textContent))
  })
const heading = (page: Page, name: string) => page.getByRole('heading', { name, exact: true }).waitFor()
const list = (page: Page, name = 'Playlist') => page.getByRole('list', { name })
const current = (page: Page) => list(page).locator('[aria-current=true]').textContent()
/** The name of the file that is played, and whether it is. */
const playing = (page: Page) =>
  page.locator('audio, video').evaluate((media: HTMLMediaElement) => {
    const [name = ''] = media.currentSrc.split('/').slice(-1)
    return [decodeURIComponent(name.replace(/\?.*/, '')), !media.paused]
  })
const play = (page: Page) => page.locator('audio, video').evaluate((media: HTMLMediaElement) => media.play())

void t.test('films and sounds', { skip: withoutBrowser }, async (t) => {
  const site = await startSite(t)
  for (const [path, content] of Object.entries(contents)) {
    const file = join(site.folder, path)
    await mkdir(dirname(file), { recursive: true })
    await writeFile(file, content)
  }
  const harbour = '/films/1 harbour.webm'

  await t.test('subtitles beside a film are chosen, kept, and only text', (t) =>
    visit(t, site, { at: harbour }, async (page) => {
      const choice = page.getByRole('combobox', { name: 'Subtitles' })
      await choice.waitFor()
      t.strictSame(await choice.getByRole('option').allTextContents(), [
        'No subtitles',
        'German',
        'SRT',
        'Chinese (China)',
      ])
      await eventually(t, () => cuesShown(page), ['Hafen'], 'the first is shown, without its markup')
      await choice.selectOption('Chinese (China)')
      await eventually(t, () => cuesShown(page), ['海港'], 'of the other format')
      await choice.selectOption('SRT')
      await eventually(t, () => cuesShown(page), [hostile], 'what looks like HTML is text')
      t.equal(await page.evaluate('localStorage.ran'), undefined)
      await choice.selectOption('No subtitles')
      await eventually(t, () => cuesShown(page), [])
      await page.reload()
      await choice.waitFor()
      t.equal(await choice.inputValue(), '-1', 'the choice is kept')
      await button(page, 'Next file').click()
      await heading(page, '2 cape.webm')
      await choice.waitFor({ state: 'detached' })
    }),
  )

  await t.test('subtitles in the language of the user are shown at first', (t) =>
    visit(t, site, { at: harbour, locale: 'zh-CN' }, async (page) => {
      await eventually(t, () => page.getByRole('combobox', { name: '字幕' }).inputValue(), '2')
      await eventually(t, () => cuesShown(page), ['海港'])
    }),
  )

  await t.test('the films of a folder follow one another', (t) =>
    visit(t, site, { at: harbour }, async (page) => {
      await list(page).waitFor()
      t.strictSame(await list(page).getByRole('listitem').allTextContents(), [
        '1 harbour.webm',
        '2 cape.webm',
        '3 broken.webm',
      ])
      t.equal(await current(page), '1 harbour.webm')
      t.equal(await button(page, 'Previous file').getAttribute('aria-disabled'), 'true')
      await page.locator('video').evaluate((video: HTMLVideoElement) => {
        Object.assign(globalThis, { kept: video })
        video.muted = true
        video.currentTime = 5.5
        return video.play()
      })
      await heading(page, '2 cape.webm')
      await eventually(t, () => playing(page), ['2 cape.webm', true], 'the next is played')
      t.ok(await page.evaluate(`kept === document.querySelector('video')`), 'in the same element')
      t.equal(await current(page), '2 cape.webm')
      await list(page).getByRole('button', { name: '3 broken.webm' }).click()
      await page.getByText('This kind of file cannot be shown here').waitFor()
      await button(page, 'Previous file').click()
      await eventually(t, () => playing(page), ['2 cape.webm', true])
      await button(page, 'Playlist').click()
      await list(page).waitFor({ state: 'detached' })
    }),
  )

  await t.test('sounds follow one another, are shuffled and repeated', (t) =>
    visit(t, site, { at: '/songs/2.wav' }, async (page) => {
      await list(page).waitFor()
      await button(page, 'Shuffle').click()
      t.equal(await button(page, 'Shuffle').getAttribute('aria-pressed'), 'true')
      await eventually(t, () => button(page, 'Previous file').getAttribute('aria-disabled'), 'true', 'a new order')
      await button(page, 'Shuffle').click()
      await eventually(t, () => button(page, 'Previous file').getAttribute('aria-disabled'), 'false')
      await play(page)
      await heading(page, '3.wav')
      await eventually(t, () => playing(page), ['3.wav', false], 'the last one ends')
      await button(page, 'Repeat: off').click()
      await play(page)
      await heading(page, '1.wav')
      await eventually(t, () => current(page), '1.wav', 'all are repeated')
      await page.locator('audio').evaluate((audio: HTMLAudioElement) => audio.pause())
      await button(page, 'Repeat: all files').click()
      await page.locator('audio').evaluate((audio: HTMLAudioElement) => {
        const ended = new Promise((resolve) => (audio.onended = resolve))
        audio.currentTime = 0.9
        return audio.play().then(() => ended)
      })
      await eventually(t, () => playing(page), ['1.wav', true], 'one is repeated')
      await button(page, 'Repeat: this file').waitFor()
    }),
  )

  await t.test('a playlist plays files near it, and asks no other host', (t) =>
    visit(t, site, { at: '/songs/list.m3u' }, async (page) => {
      await page.getByText('2 entries are left out').waitFor()
      t.strictSame(await list(page).getByRole('listitem').allTextContents(), [
        '2.wav',
        '/films/2 cape.webm',
        'missing.wav',
      ])
      await eventually(t, () => playing(page), ['2.wav', false])
      await play(page)
      await eventually(t, () => playing(page), ['2 cape.webm', true], 'a film follows a sound')
      await heading(page, 'list.m3u')
      await button(page, 'Next file').click()
      await page.getByText('“missing.wav” cannot be played').waitFor()
      await button(page, 'Previous file').click()
      await eventually(t, () => playing(page), ['2 cape.webm', true])
      await page.goto('/songs/nothing.m3u8')
      await page.getByText('This playlist has no file of this server.').waitFor()
      await page.goto('/songs/stream.m3u8')
      await page.getByText('This kind of file cannot be shown here').waitFor()
    }),
  )

  await t.test('a film goes on when the server signs its link anew', async (t) => {
    await site.call('/api/admin/setting/save', [{ key: 'link_expiration', value: '1' }])
    await visit(t, site, { at: harbour }, async (page) => {
      await list(page).waitFor()
      const source = () => page.locator('video').getAttribute('src')
      const first = (await source()) ?? ''
      const signs = new Set<string>()
      page.on('response', (response) => {
        if (!response.url().endsWith('/api/fs/get')) return
        void response.json().then(({ data }: { data: { sign: string } }) => signs.add(data.sign))
      })
      const isSignedAnew = async () => {
        // The page asks again when it is shown again.
        await page.evaluate(`document.dispatchEvent(new Event('visibilitychange', { bubbles: true }))`)
        // The page has shown the answer before it asks once more.
        return [...signs].filter((sign) => !first.includes(encodeURIComponent(sign))).length > 1
      }
      await eventually(t, isSignedAnew, true)
      t.equal(await source(), first)
    })
    await site.call('/api/admin/setting/save', [{ key: 'link_expiration', value: '0' }])
  })

  await t.test('other programs get a link that works without an account', (t) =>
    visit(t, site, { at: harbour }, async (page) => {
      await button(page, 'Open with').click()
      const opened = dialog(page, 'Open with')
      const link = await opened.getByRole('textbox', { name: 'Address' }).inputValue()
      t.strictSame(Buffer.from(await (await fetch(link)).arrayBuffer()), film)
      const mpv = await opened.getByRole('link', { name: 'mpv' }).getAttribute('href')
      t.equal(mpv, `mpv-handler://play/${Buffer.from(link).toString('base64url')}/`)
      const [saved] = await Promise.all([
        page.waitForEvent('download'),
        opened.getByRole('link', { name: 'Playlist file' }).click(),
      ])
      t.equal(saved.suggestedFilename(), '1 harbour.webm.m3u8')
      t.equal(await readFile(await saved.path(), 'utf8'), `#EXTM3U\n#EXTINF:-1,1 harbour.webm\n${link}\n`)
      await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
      await opened.getByRole('button', { name: 'Copy link' }).click()
      await eventually(t, () => page.evaluate<string>('navigator.clipboard.readText()'), link)
      await page.keyboard.press('Escape')
      await opened.waitFor({ state: 'detached' })
    }),
  )

  await t.test('a visitor of a share plays what it has, and nothing above it', async (t) => {
    const share = { id: 'media', files: ['/songs'], pwd: 'tide' }
    await site.call('/api/share/create', share)
    await visit(t, site, { user: null, at: '/@s/media/list.m3u?pwd=tide' }, async (page) => {
      await list(page).waitFor()
      t.strictSame(await list(page).getByRole('listitem').allTextContents(), [
        '2.wav',
        '/@s/media/films/2 cape.webm',
        'missing.wav',
      ])
      await button(page, 'Next file').click()
      await page.getByText('“2 cape.webm” cannot be played').waitFor()
      await list(page).getByRole('button', { name: '2.wav' }).click()
      await eventually(t, async () => (await playing(page))[0], '2.wav')
      await button(page, 'Open with').click()
      const link = await dialog(page, 'Open with').getByRole('textbox', { name: 'Address' }).inputValue()
      t.strictSame(Buffer.from(await (await fetch(link)).arrayBuffer()), contents['songs/2.wav'])
    })
  })

  await t.test('all of it can be done by keys', (t) =>
    visit(t, site, { at: harbour }, async (page) => {
      await list(page).waitFor()
      const tab = async (name: string) => {
        for (let presses = 0; presses < 60; presses++) {
          await page.keyboard.press('Tab')
          const focused = await page.evaluate(
            () => document.activeElement?.ariaLabel ?? document.activeElement?.textContent,
          )
          if (focused?.trim() === name) return
        }
        t.fail(`Tab does not lead to ${name}`)
      }
      await tab('Next file')
      await page.keyboard.press('Enter')
      await heading(page, '2 cape.webm')
      await tab('Open with')
      await page.keyboard.press('Enter')
      await dialog(page, 'Open with').waitFor()
      await page.keyboard.press('Escape')
      await tab('1 harbour.webm')
      await page.keyboard.press('Enter')
      await heading(page, '1 harbour.webm')
    }),
  )

  await t.test('it is accessible in both languages and colors, wide and narrow', async (t) => {
    for (const [locale, name, openWith] of [
      ['en-US', 'Playlist', 'Open with'],
      ['zh-CN', '播放列表', '用其他播放器打开'],
    ] as const) {
      for (const at of [harbour, '/songs/1.wav', '/songs/list.m3u', '/films/3 broken.webm']) {
        await visit(t, site, { at, locale }, async (page) => {
          await list(page, name).waitFor()
          for (const width of [1280, 390]) {
            await page.setViewportSize({ width, height: 780 })
            for (const colorScheme of ['light', 'dark'] as const) {
              await page.emulateMedia({ colorScheme })
              t.strictSame(await axeViolations(page), [], `${at}, ${locale}, ${colorScheme}, ${width} pixels`)
            }
            t.ok(await page.evaluate<boolean>('document.documentElement.scrollWidth <= innerWidth'), 'everything fits')
          }
          await button(page, openWith).click()
          await dialog(page, openWith).getByRole('textbox').waitFor()
          t.strictSame(await axeViolations(page, 'dialog'), [], `${at}: other programs, ${locale}`)
        })
      }
    }
  })
})
