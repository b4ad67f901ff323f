/** Films and sounds, their subtitles, playlists, and other programs that play them. */
import { number } from '../format.ts'
import type { Translation } from '../texts.ts'

export default {
  media: {
    tools: '播放工具',
    previous: '上一个',
    next: '下一个',
    shuffle: '随机播放',
    repeat: { none: '循环：关闭', all: '循环：播放列表', one: '循环：当前文件' },
    list: '播放列表',
    subtitles: '字幕',
    noSubtitles: '无字幕',
    subtitlesFailed: '无法读取字幕。',
    missing: (name) => `无法播放“${name}”：文件不存在，或不是音视频文件。`,
    emptyPlaylist: '此播放列表中没有本服务器上的文件。',
    skipped: (count) => `已忽略 ${number(count)} 项：位于其他服务器，或路径无效。`,
    openWith: '用其他播放器打开',
    openWithHint: (name) => `在其他播放器中打开“${name}”，播放器会获得此文件的直链。`,
    worksForDay: '直链 24 小时内有效，无需登录即可访问。',
    playlistFile: '播放列表文件',
    playlistHint: 'VLC 和大多数播放器都能打开播放列表文件。',
  },
} satisfies Translation<'media'>
