/** Programs outside of the browser that play what is at a URL, and the links that open them. */

export type Platform = 'android' | 'ios' | 'macos' | 'windows' | 'linux'

export interface Program {
  readonly name: string
  readonly link: (url: URL, title: string) => string
}

/** The platform of the browser; undefined if it is another one. */
export function platformOf({ userAgent, maxTouchPoints }: Pick<Navigator, 'userAgent' | 'maxTouchPoints'>) {
  // An iPad says that it is a Macintosh.
  if (/iPhone|iPad|iPod/.test(userAgent) || (userAgent.includes('Macintosh') && maxTouchPoints > 1)) return 'ios'
  const names: readonly (readonly [RegExp, Platform])[] = [
    [/Android/, 'android'],
    [/Macintosh/, 'macos'],
    [/Windows/, 'windows'],
    [/Linux|CrOS/, 'linux'],
  ]
  return names.find(([pattern]) => pattern.test(userAgent))?.[1]
}

/** A link that Android opens in an app (Chrome for Android, Intents). Without `app` the user chooses one. */
function intent(name: string, app?: string): Program {
  return {
    name,
    link: ({ host, pathname, search, protocol }, title) =>
      [
        `intent://${host}${pathname}${search}#Intent`,
        `scheme=${protocol.slice(0, -1)}`,
        'action=android.intent.action.VIEW',
        'type=video/*',
        ...(app === undefined ? [] : [`package=${app}`]),
        `S.title=${encodeURIComponent(title)}`,
        'end',
      ].join(';'),
  }
}

/** The URL is a parameter. */
const withUrl = (name: string, start: string): Program => ({
  name,
  link: ({ href }) => start + encodeURIComponent(href),
})
/** The URL follows the scheme as it is. */
const before = (name: string, start: string): Program => ({ name, link: ({ href }) => start + href })

const infuse = withUrl('Infuse', 'infuse://x-callback-url/play?url=')
/** mpv has no links of its own: the program mpv-handler opens these, which have the URL in base64url. */
const mpvHandler: Program = {
  name: 'mpv (mpv-handler)',
  link: ({ href }) => `mpv-handler://play/${btoa(href).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')}/`,
}

const programs: Readonly<Record<Platform, readonly Program[]>> = {
  android: [
    intent('VLC', 'org.videolan.vlc'),
    intent('MX Player', 'com.mxtech.videoplayer.ad'),
    intent('MX Player Pro', 'com.mxtech.videoplayer.pro'),
    intent('mpv', 'is.xyz.mpv'),
  ],
  ios: [
    withUrl('VLC', 'vlc-x-callback://x-callback-url/stream?url='),
    infuse,
    before('nPlayer', 'nplayer-'),
    withUrl('VidHub', 'open-vidhub://x-callback-url/open?url='),
  ],
  macos: [withUrl('IINA', 'iina://weblink?url='), infuse],
  windows: [before('PotPlayer', 'potplayer://'), mpvHandler],
  linux: [mpvHandler],
}

/** The programs of a platform. */
export function programsOn(platform: Platform | undefined): readonly Program[] {
  return platform === undefined ? [] : programs[platform]
}

/** A playlist of the one file, which the program for playlists opens, such as VLC. */
export function playlistOf(url: URL, title: string): string {
  return `#EXTM3U\n#EXTINF:-1,${title.replaceAll(/[\r\n]/g, ' ')}\n${url.href}\n`
}
