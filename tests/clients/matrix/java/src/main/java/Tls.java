import java.io.FileInputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** TLS with the files that the environment names. */
final class Tls {
    private Tls() {}

    static SSLContext context() throws Exception {
        KeyStore trusted = empty();
        trusted.setCertificateEntry("ca", certificate(System.getenv("TLS_CA")));
        var trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(trusted);
        KeyStore own = empty();
        if (System.getenv("TLS_CERT") != null) {
            Certificate[] chain = {certificate(System.getenv("TLS_CERT"))};
            String text = Files.readString(Path.of(System.getenv("TLS_KEY")));
            byte[] der = Base64.getMimeDecoder().decode(text.replaceAll("-----[A-Z ]*-----", ""));
            var key = KeyFactory.getInstance("EC").generatePrivate(new PKCS8EncodedKeySpec(der));
            own.setKeyEntry("own", key, new char[0], chain);
        }
        var keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        keys.init(own, new char[0]);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(keys.getKeyManagers(), trust.getTrustManagers(), null);
        return context;
    }

    private static KeyStore empty() throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        return store;
    }

    private static Certificate certificate(String path) throws Exception {
        try (var file = new FileInputStream(path)) {
            return CertificateFactory.getInstance("X.509").generateCertificate(file);
        }
    }
}
