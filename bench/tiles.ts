/** Opens a folder as tiles in Chromium, as a user does. */
import { chromium } from 'playwright-core'
import { run } from './programs.js'

/** The path of the installed Chromium; undefined if there is none. */
export async function chromiumPath(): Promise<string | undefined> {
  const path = await run('sh', ['-c', 'command -v chromium']).catch(() => '')
  return path.trim() || undefined
}

/**
 * Seconds from the request of the page until each tile in view has its picture. The browser has only been started: it
 * has nothing of the page.
 */
export async function secondsUntilTiles(
  url: string,
  user: { readonly username: string; readonly password: string },
  path: string,
): Promise<number> {
  const browser = await chromium.launch({
    executablePath: (await chromiumPath()) ?? 'chromium',
    args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'],
  })
  try {
    const context = await browser.newContext({ baseURL: url, viewport: { width: 1280, height: 800 } })
    const page = await context.newPage()
    const answer = await page.request.post('/api/auth/session', { data: { ...user, otp_code: '', remember: false } })
    const { code, message } = (await answer.json()) as { code: number; message: string }
    if (code !== 200) throw new Error(`sign-in: ${message}`)
    await page.addInitScript(`localStorage.setItem('view', 'tiles')`)
    await page.goto(path)
    return (await page.evaluate<number>(untilShown)) / 1000
  } finally {
    await browser.close()
  }
}

/** Resolves to the milliseconds from the request of the page until a picture is in each tile in view, and painted. */
const untilShown = `(async () => {
  const frame = () => new Promise(requestAnimationFrame)
  const inView = (tile) => {
    const { top, bottom } = tile.getBoundingClientRect()
    return bottom > 0 && top < innerHeight
  }
  const areShown = () => {
    const tiles = [...document.querySelectorAll('.tile')].filter(inView)
    return tiles.length > 0 && tiles.every((tile) => tile.querySelector('img:not(.unseen)') !== null)
  }
  while (!areShown()) await frame()
  await frame()
  return performance.now()
})()`
