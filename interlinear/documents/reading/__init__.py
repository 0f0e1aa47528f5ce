"""Bytes of files as text, XML trees and archives, with limits on what untrusted files may cost."""
