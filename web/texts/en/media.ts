/** Films and sounds, their subtitles, playlists, and other programs that play them. */
import { plural } from '../format.ts'

export default {
  media: {
    tools: 'Tools for what is played',
    previous: 'Previous file',
    next: 'Next file',
    shuffle: 'Shuffle',
    repeat: { none: 'Repeat: off', all: 'Repeat: all files', one: 'Repeat: this file' },
    list: 'Playlist',
    subtitles: 'Subtitles',
    noSubtitles: 'No subtitles',
    subtitlesFailed: 'The subtitles cannot be read.',
    missing: (name: string) => `“${name}” cannot be played: it is not there, or it is neither a film nor a sound.`,
    emptyPlaylist: 'This playlist has no file of this server.',
    skipped: (count: number) =>
      plural(count, {
        one: '# entry is left out: it is on another server, or leads nowhere.',
        other: '# entries are left out: they are on other servers, or lead nowhere.',
      }),
    openWith: 'Open with',
    openWithHint: (name: string) => `Opens “${name}” in another program, which gets a link to it.`,
    worksForDay: 'The link works for a day, without an account.',
    playlistFile: 'Playlist file',
    playlistHint: 'VLC and most other players open a playlist file.',
  },
}
